#include "tests/ops/reference/dense.h"
#include "tests/ops/reference/plans.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddp::reference {
namespace {

class ReferenceOptimizer final : public OptimizerOp {
 public:
  ReferenceOptimizer(const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors)
      : d_(desc), tensors_(tensors.begin(), tensors.end()) {}

  void step(const OptimizerPart& part, const OptimizerScalars* scalars, std::span<const float> skip) override {
    if (std::any_of(skip.begin(), skip.end(), [](float value) { return value != 0; })) return;
    for (const OptimizerTensor& t : tensors_) {
      const double local = d_.kind == OptimizerDesc::Kind::lars ? local_rate(t, part, *scalars) : 1.0;
      const int64_t first = std::max(t.offset, part.begin), end = std::min(t.offset + t.count, part.begin + part.count);
      for (int64_t i = first; i < end; ++i) update(t, part, i, *scalars, local);
    }
  }

 private:
  void update(const OptimizerTensor& t, const OptimizerPart& part, int64_t i, const OptimizerScalars& s,
              double local) const {
    const double decay = t.decay, momentum = t.momentum, rate = double{s.lr} * t.rate;
    double w = part.weights[i], g = static_cast<double>(part.gradients[i]) * s.gradient_scale;
    float* const m = part.state[0] ? part.state[0] + (i - part.begin) : nullptr;
    float* const v = part.state[1] ? part.state[1] + (i - part.begin) : nullptr;
    if (d_.kind == OptimizerDesc::Kind::lars) {
      const double moved = momentum * static_cast<double>(*m) + rate * local * (g + decay * w);
      *m = static_cast<float>(moved);
      part.weights[i] = static_cast<float>(w - moved);
      return;
    }
    if (d_.decoupled)
      w -= rate * decay * w;
    else
      g += decay * w;
    if (d_.kind == OptimizerDesc::Kind::sgd) {
      double direction = g;
      if (d_.states() == 1) {
        const double moved = momentum * static_cast<double>(*m) + g;
        *m = static_cast<float>(moved);
        direction = d_.nesterov ? g + momentum * moved : moved;
      }
      w -= rate * direction;
    } else {
      const double mean = d_.beta1 * static_cast<double>(*m) + (1.0 - d_.beta1) * g;
      const double square = d_.beta2 * static_cast<double>(*v) + (1.0 - d_.beta2) * g * g;
      *m = static_cast<float>(mean);
      *v = static_cast<float>(square);
      w -= rate / s.correction1 * mean / (std::sqrt(square / s.correction2) + d_.epsilon);
    }
    part.weights[i] = static_cast<float>(w);
  }

  double local_rate(const OptimizerTensor& t, const OptimizerPart& part, const OptimizerScalars& s) const {
    DDP_EXPECT(part.begin == 0 && part.count >= tensors_.back().offset + tensors_.back().count);
    double weights = 0, gradients = 0;
    for (int64_t i = t.offset; i < t.offset + t.count; ++i) {
      weights += std::pow(static_cast<double>(part.weights[i]), 2);
      gradients += std::pow(static_cast<double>(part.gradients[i]) * s.gradient_scale, 2);
    }
    weights = std::sqrt(weights);
    gradients = std::sqrt(gradients);
    if (!t.adapts || weights == 0 || gradients == 0) return 1;
    return d_.trust * weights / (gradients + t.decay * weights);
  }

  OptimizerDesc d_;
  std::vector<OptimizerTensor> tensors_;
};

}  // namespace

std::unique_ptr<OptimizerOp> make_optimizer(const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors) {
  return std::make_unique<ReferenceOptimizer>(desc, tensors);
}

}  // namespace ddp::reference
