#include "ops/attention.h"

#include "core/error.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu_ops.h"

#include <algorithm>

namespace ddp {
namespace {

// A head of a sample is an item for a thread, which has a part of the scratch.
class CpuAttention final : public Attention {
 public:
  CpuAttention(const Workers& workers, std::shared_ptr<Scratch> scratch, DType activations, const AttentionDesc& desc,
               std::span<const int64_t> batch_sizes)
      : workers_(workers),
        scratch_(std::move(scratch)),
        kernels_(workers.kernels.activations(activations).attention),
        desc_(desc),
        type_(activations),
        max_batch_(batch_sizes.empty() ? 0 : *std::max_element(batch_sizes.begin(), batch_sizes.end())),
        of_thread_(kernels_.scratch(desc.tokens, desc.width / desc.heads, desc.gradients)),
        saved_(workers.device, bytes_of_floats(max_batch_ * desc.heads * desc.tokens * 2)) {
    DDP_EXPECT(desc.width % desc.heads == 0);
    scratch_->reserve(bytes_of_floats(workers.threads * of_thread_));
  }

  void forward(const Tensor& qkv, const Tensor& y) override {
    check(qkv, 3);
    check(y, 1);
    each_head(qkv.shape.n, kernels_.forward, qkv, y, {}, {});
  }

  void backward(const Tensor& qkv, const Tensor& y, const Tensor& dy, const Tensor& dqkv) override {
    DDP_EXPECT(desc_.gradients);
    check(qkv, 3);
    check(y, 1);
    check(dy, 1);
    check(dqkv, 3);
    each_head(qkv.shape.n, kernels_.backward, qkv, y, dy, dqkv);
  }

 private:
  void check(const Tensor& t, int64_t parts) const {
    DDP_EXPECT(t.format == Format{} && t.dtype == type_);
    DDP_EXPECT(t.shape.image.elements() == desc_.tokens * desc_.width * parts);
    require(t.shape.n <= max_batch_, Exit::internal, "an attention planned for up to {} samples was given {}",
            max_batch_, t.shape.n);
  }

  void each_head(int64_t n, void (*kernel)(const AttentionHead&), const Tensor& qkv, const Tensor& y, const Tensor& dy,
                 const Tensor& dqkv) const {
    const int64_t heads = n * desc_.heads, size = desc_.width / desc_.heads;
    for (int64_t start = 0; start < heads; start += workers_.threads)
      workers_.each(std::min<int64_t>(workers_.threads, heads - start), [&](int64_t thread) {
        const int64_t sample = (start + thread) / desc_.heads, head = (start + thread) % desc_.heads;
        const int64_t at = sample * desc_.tokens * desc_.width;
        const auto part = [&](const Tensor& t, int64_t offset) -> void* {
          return t.data ? element(t, offset + head * size) : nullptr;
        };
        kernel({.qkv = part(qkv, 3 * at),
                .y = part(y, at),
                .dy = part(dy, at),
                .dqkv = part(dqkv, 3 * at),
                .tokens = desc_.tokens,
                .size = size,
                .width = desc_.width,
                .causal = desc_.causal,
                .saved = saved_.as<float>() + (start + thread) * desc_.tokens * 2,
                .scratch = static_cast<float*>(scratch_->data()) + thread * of_thread_});
      });
  }

  Workers workers_;
  std::shared_ptr<Scratch> scratch_;
  const AttentionKernels& kernels_;
  AttentionDesc desc_;
  DType type_;
  int64_t max_batch_;
  int64_t of_thread_;  // floats of the scratch
  Buffer saved_;       // [sample][head][token] (AttentionHead::saved)
};

}  // namespace

std::unique_ptr<Attention> CpuOps::attention(const AttentionDesc& desc, std::span<const int64_t> batch_sizes) {
  return std::make_unique<CpuAttention>(workers_, dnnl_.scratch, activations_, desc, batch_sizes);
}

}  // namespace ddp
