#include "core/error.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/layout.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddp {
namespace {

// lars needs a pass before the step, for the norms of all tensors.
class CpuOptimizer final : public OptimizerOp {
 public:
  CpuOptimizer(const Workers& workers, const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors)
      : workers_(workers),
        desc_(desc),
        rules_(workers.kernels.optimizer),
        flat_(workers.kernels.flat),
        tensors_(tensors.begin(), tensors.end()),
        rate_factors_(tensors.size(), 1.0f) {
    for (size_t t = 1; t < tensors_.size(); ++t)
      DDP_EXPECT(tensors_[t].offset >= tensors_[t - 1].offset + tensors_[t - 1].count);
    if (desc.kind != OptimizerDesc::Kind::lars) return;
    for (const OptimizerTensor& tensor : tensors_) {
      first_piece_.push_back(static_cast<int64_t>(pieces_.size()));
      for (int64_t at = 0; at < tensor.count; at += kPiece)
        pieces_.push_back({tensor.offset + at, std::min(kPiece, tensor.count - at), 0, 0});
    }
    first_piece_.push_back(static_cast<int64_t>(pieces_.size()));
  }

  void step(const OptimizerPart& part, const OptimizerScalars* scalars, std::span<const float> skip) override {
    if (std::any_of(skip.begin(), skip.end(), [](float value) { return value != 0; })) return;
    if (desc_.kind == OptimizerDesc::Kind::lars) find_rate_factors(part, *scalars);
    workers_.spans(part.count, [&](int64_t first, int64_t end) {
      first += part.begin;
      end += part.begin;
      const auto after = [](int64_t at, const OptimizerTensor& t) { return at < t.offset + t.count; };
      auto tensor = std::upper_bound(tensors_.begin(), tensors_.end(), first, after);
      for (; tensor != tensors_.end() && tensor->offset < end; ++tensor) {
        const int64_t from = std::max(first, tensor->offset), to = std::min(end, tensor->offset + tensor->count);
        update(part, *scalars, *tensor, from, to - from);
      }
    });
  }

 private:
  static constexpr int64_t kPiece = 16384;

  struct Piece {
    int64_t offset, count;      // part of a tensor, in elements
    double weights, gradients;  // sums of squares
  };

  void update(const OptimizerPart& part, const OptimizerScalars& s, const OptimizerTensor& tensor, int64_t at,
              int64_t count) const {
    float* const w = part.weights + at;
    const float* const g = part.gradients + at;
    const auto state = [&](int k) { return part.state[k] + (at - part.begin); };
    const float lr = s.lr * tensor.rate, decay = tensor.decay;
    switch (desc_.kind) {
      case OptimizerDesc::Kind::sgd: {
        const SgdRule rule{lr, s.gradient_scale, tensor.momentum, desc_.nesterov, desc_.decoupled};
        if (desc_.states() == 0) return rules_.sgd(rule, w, g, decay, count);
        return rules_.sgd_momentum(rule, w, g, state(0), decay, count);
      }
      case OptimizerDesc::Kind::adam: {
        const AdamRule rule{lr,
                            s.gradient_scale,
                            desc_.beta1,
                            desc_.beta2,
                            desc_.epsilon,
                            s.correction1,
                            s.correction2,
                            desc_.decoupled};
        return rules_.adam(rule, w, g, state(0), state(1), decay, count);
      }
      case OptimizerDesc::Kind::lars: {
        const LarsRule rule{lr, s.gradient_scale, tensor.momentum};
        return rules_.lars(rule, w, g, state(0), decay, rate_factors_[&tensor - tensors_.data()], count);
      }
    }
  }

  // Computes the LARS factor of each tensor. Sums of pieces are added in order.
  void find_rate_factors(const OptimizerPart& part, const OptimizerScalars& s) {
    DDP_EXPECT(tensors_.empty() || (part.begin == 0 && part.count >= tensors_.back().offset + tensors_.back().count));
    workers_.each(static_cast<int64_t>(pieces_.size()), [&](int64_t i) {
      Piece& piece = pieces_[i];
      piece.weights = flat_.sum_of_squares(part.weights + piece.offset, piece.count);
      piece.gradients = flat_.sum_of_squares(part.gradients + piece.offset, piece.count);
    });
    for (size_t t = 0; t < tensors_.size(); ++t) {
      double weights = 0, gradients = 0;
      for (int64_t i = first_piece_[t]; i < first_piece_[t + 1]; ++i) {
        weights += pieces_[i].weights;
        gradients += pieces_[i].gradients;
      }
      const LarsFactorOf<double> factor{desc_.trust, tensors_[t].decay, s.gradient_scale};
      rate_factors_[t] = tensors_[t].adapts ? static_cast<float>(factor(weights, gradients)) : 1.0f;
    }
  }

  Workers workers_;
  OptimizerDesc desc_;
  const OptimizerKernels& rules_;
  const FlatKernels& flat_;
  std::vector<OptimizerTensor> tensors_;
  std::vector<float> rate_factors_;   // one per tensor
  std::vector<Piece> pieces_;         // lars: pieces of all tensors
  std::vector<int64_t> first_piece_;  // lars: index of the first piece of each tensor, then the number of pieces
};

}  // namespace

std::unique_ptr<OptimizerOp> CpuOps::optimizer(const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors) {
  return std::make_unique<CpuOptimizer>(workers_, desc, tensors);
}

}  // namespace ddp
