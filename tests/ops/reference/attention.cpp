#include "tests/ops/reference/dense.h"
#include "tests/ops/reference/plans.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddp::reference {
namespace {

class ReferenceAttention final : public Attention {
 public:
  ReferenceAttention(const Device& device, const AttentionDesc& desc)
      : device_(device), d_(desc), size_(desc.width / desc.heads), scale_(1 / std::sqrt(static_cast<double>(size_))) {}

  void forward(const Tensor& qkv, const Tensor& y) override {
    expect_dense(qkv);
    expect_dense(y);
    each_query(qkv, [&](const std::vector<double>& p, int64_t sample, int64_t i, int64_t head) {
      for (int64_t k = 0; k < size_; ++k) {
        double sum = 0;
        for (size_t j = 0; j < p.size(); ++j) sum += p[j] * *part(qkv, sample, static_cast<int64_t>(j), 2, head, k);
        *row(y, sample, i, head, k) = static_cast<float>(sum);
      }
    });
    device_.poll();
  }

  void backward(const Tensor& qkv, const Tensor& y, const Tensor& dy, const Tensor& dqkv) override {
    expect_dense(dy);
    expect_dense(dqkv);
    std::vector<double> sums(static_cast<size_t>(qkv.shape.elements()));
    const auto sum = [&](int64_t sample, int64_t token, int64_t which, int64_t head, int64_t k) -> double& {
      return sums[static_cast<size_t>(part(qkv, sample, token, which, head, k) - qkv.f32())];
    };
    each_query(qkv, [&](const std::vector<double>& p, int64_t sample, int64_t i, int64_t head) {
      double mean = 0;  // of dp under p
      for (int64_t k = 0; k < size_; ++k)
        mean += static_cast<double>(*row(y, sample, i, head, k)) * *row(dy, sample, i, head, k);
      for (int64_t j = 0; j < std::ssize(p); ++j) {
        double dp = 0;
        for (int64_t k = 0; k < size_; ++k)
          dp += static_cast<double>(*row(dy, sample, i, head, k)) * *part(qkv, sample, j, 2, head, k);
        const double share = p[static_cast<size_t>(j)], ds = share * (dp - mean) * scale_;
        for (int64_t k = 0; k < size_; ++k) {
          sum(sample, i, 0, head, k) += ds * *part(qkv, sample, j, 1, head, k);
          sum(sample, j, 1, head, k) += ds * *part(qkv, sample, i, 0, head, k);
          sum(sample, j, 2, head, k) += share * *row(dy, sample, i, head, k);
        }
      }
    });
    std::ranges::transform(sums, dqkv.f32(), [](double v) { return static_cast<float>(v); });
    device_.poll();
  }

 private:
  // Value k of a token's query, key or value (which: 0, 1, 2).
  float* part(const Tensor& t, int64_t sample, int64_t token, int64_t which, int64_t head, int64_t k) const {
    return t.f32() + ((sample * d_.tokens + token) * 3 + which) * d_.width + head * size_ + k;
  }
  float* row(const Tensor& t, int64_t sample, int64_t token, int64_t head, int64_t k) const {
    return t.f32() + (sample * d_.tokens + token) * d_.width + head * size_ + k;
  }

  // Calls f(p, sample, i, head) with the row p_i of the softmax; with `causal` it ends at i.
  template <class F>
  void each_query(const Tensor& qkv, F&& f) const {
    for (int64_t sample = 0; sample < qkv.shape.n; ++sample)
      for (int64_t head = 0; head < d_.heads; ++head)
        for (int64_t i = 0; i < d_.tokens; ++i) {
          std::vector<double> p(static_cast<size_t>(d_.causal ? i + 1 : d_.tokens));
          for (int64_t j = 0; j < std::ssize(p); ++j) {
            double score = 0;
            for (int64_t k = 0; k < size_; ++k)
              score += static_cast<double>(*part(qkv, sample, i, 0, head, k)) * *part(qkv, sample, j, 1, head, k);
            p[static_cast<size_t>(j)] = score * scale_;
          }
          const double maximum = *std::ranges::max_element(p);
          double total = 0;
          for (double& v : p) total += v = std::exp(v - maximum);
          for (double& v : p) v /= total;
          f(p, sample, i, head);
        }
  }

  const Device& device_;
  AttentionDesc d_;
  int64_t size_;
  double scale_;
};

}  // namespace

std::unique_ptr<Attention> make_attention(const Device& device, const AttentionDesc& desc) {
  return std::make_unique<ReferenceAttention>(device, desc);
}

}  // namespace ddp::reference
