// The optimizer step: one pass over the flat buffers, which reads gradients once and writes weights and state once.
// With g the gradient times gradient_scale, d the tensor's weight decay, momentum its momentum, and lr the learning
// rate times its rate:
//
//   decay      decoupled: w -= lr * d * w first; else g += d * w first
//   sgd        without momentum: w -= lr * g
//              else m = momentum * m + g, w -= lr * (nesterov ? g + momentum * m : m)
//              (PyTorch's torch.optim.SGD with dampening 0)
//   adam       m = b1 * m + (1 - b1) * g, v = b2 * v + (1 - b2) * g^2,
//              w -= lr / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + epsilon)   (Kingma and Ba, 2015; torch.optim.Adam,
//              and AdamW of Loshchilov and Hutter, 2019, if decoupled)
//   lars       m = momentum * m + lr * l * (g + d * w), w -= m, where l = trust * |w| / (|g| + d * |w|) over the whole
//              tensor if it adapts and both norms are above 0, else l = 1; always coupled
//              (You, Gitman and Ginsburg, 2017, algorithm 1)
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace ddp {

struct OptimizerDesc {
  enum class Kind : uint8_t { sgd, adam, lars };
  Kind kind = Kind::sgd;
  float momentum = 0;  // of a tensor without a value of its own, as weight_decay; an op reads OptimizerTensor's
  bool nesterov = false;
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float weight_decay = 0;
  bool decoupled = false;
  float trust = 0.001f;
  bool group_momentum = false;  // a tensor has momentum above 0 of its own

  // Number of state buffers: m, then v.
  int states() const {
    if (kind == Kind::adam) return 2;
    return kind == Kind::lars || momentum != 0 || group_momentum ? 1 : 0;
  }
};

// One tensor of the flat buffer, in elements. Tensors are in ascending order and start at multiples of 16. The gaps
// between them hold 0 in weights, gradients and state.
struct OptimizerTensor {
  int64_t offset = 0, count = 0;
  float rate = 1;      // factor of OptimizerScalars::lr
  float decay = 0;     // weight decay
  float momentum = 0;  // sgd and lars
  bool adapts = true;  // lars: the tensor has a rate factor of its own
};

// The values that change from step to step. They are in device memory.
struct OptimizerScalars {
  float lr = 0;
  float correction1 = 1, correction2 = 1;  // adam: 1 - b1^t and 1 - b2^t at step t = 1, 2, ...
  float gradient_scale = 1;                // Ops::correct_for_excluded: the planned samples before it
};

// The elements [begin, begin + count) of the flat buffers. begin and end are multiples of 16, or the end of the last
// tensor. `state` holds this part only: state[k][i] belongs to weights[begin + i].
struct OptimizerPart {
  float* weights = nullptr;          // the whole flat buffer
  const float* gradients = nullptr;  // the whole flat buffer
  int64_t begin = 0, count = 0;
  std::array<float*, 2> state = {};
  uint16_t* bf16_weights = nullptr;  // the whole flat buffer; null on the host, and where no op reads it
};

// A plan. lars accepts only the whole buffer as a part.
class OptimizerOp {
 public:
  virtual ~OptimizerOp() = default;

  // Updates one part, and rounds its new weights to bf16_weights unless that is null. Does nothing if any value of
  // `skip` is not 0. `scalars` and `skip` are in device memory. Gaps between tensors stay 0.
  virtual void step(const OptimizerPart& part, const OptimizerScalars* scalars, std::span<const float> skip) = 0;
};

}  // namespace ddp
