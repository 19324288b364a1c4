#include "ops/attention.h"

#include "core/error.h"
#include "ops/cuda/cudnn_library.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace ddp {
namespace {

constexpr size_t kAttentionEngines = 3;  // to measure for a pass: cuDNN compiles each, which takes half a second

// As NVIDIA's cudnn-frontend restricts its node SDPA. cuDNN 9.15 needs a mask where the tokens are no multiple of 128.
bool suits_cudnn(const CudaContext& context, const AttentionDesc& desc) {
  constexpr size_t kLeastVersion = 91600;
  const int64_t size = desc.width / desc.heads;
  return context.activations() == DType::bf16 && size % 8 == 0 && size <= 128 && desc.tokens > 1 &&
         cudnnGetVersion() >= kLeastVersion;
}

// From Blackwell on, only some engines keep the order of sums in the backward pass, and cuDNN does not say which.
bool keeps_order() {
  int device = 0;
  cudaDeviceProp properties{};
  DDP_CUDA(cudaGetDevice(&device));
  DDP_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties.major < 10;
}

// Fused attention of cuDNN in bf16. The engine of a pass is chosen as that of a convolution (cudnn_library.h).
class CudnnAttention final : public Attention {
 public:
  CudnnAttention(std::shared_ptr<CudnnLibrary> library, CudaContext& context, const AttentionDesc& desc,
                 std::span<const int64_t> batch_sizes)
      : library_(std::move(library)), context_(context), desc_(desc) {
    for (const int64_t n : batch_sizes)
      if (n > 0) batch_sizes_.push_back(n);
  }

  // False if cuDNN has no plans: on all ranks if it has no engine. Collective.
  bool plan() {
    const cudnn::Choice forward = choose(false);
    const cudnn::Choice backward = desc_.gradients ? choose(true) : forward;
    if (forward.none() || backward.none()) return false;
    int64_t workspace = 0, most = 0;
    for (const int64_t n : batch_sizes_) {
      most = std::max(most, n);
      if (!add_plan(false, n, forward, forward_, workspace)) return false;
      if (desc_.gradients && !add_plan(true, n, backward, backward_, workspace)) return false;
    }
    lse_ = Buffer(context_.device, rows(most) * sizeof(float));
    if (desc_.gradients) {
      means_at_ = aligned(workspace);
      query_sums_at_ = means_at_ + aligned(rows(most) * sizeof(float));
      workspace = query_sums_at_ + (deterministic() ? 0 : rows(most) * head_size() * sizeof(float));
    }
    context_.workspace.reserve(workspace);
    return true;
  }

  void forward(const Tensor& qkv, const Tensor& y) override {
    const int64_t n = samples(qkv, y);
    void* const pointers[] = {part(qkv, 0), part(qkv, 1), part(qkv, 2), y.data, lse_.data()};
    run(forward_, n, pointers);
  }

  void backward(const Tensor& qkv, const Tensor& y, const Tensor& dy, const Tensor& dqkv) override {
    DDP_EXPECT(desc_.gradients);
    const int64_t n = samples(qkv, y);
    DDP_EXPECT(samples(dqkv, dy) == n);
    auto* const workspace = static_cast<std::byte*>(context_.workspace.data());
    // The last one is no operand of a deterministic pass.
    void* const pointers[] = {part(qkv, 0),
                              part(qkv, 1),
                              part(qkv, 2),
                              y.data,
                              lse_.data(),
                              dy.data,
                              part(dqkv, 0),
                              part(dqkv, 1),
                              part(dqkv, 2),
                              workspace + means_at_,
                              workspace + query_sums_at_};
    run(backward_, n, std::span(pointers).first(std::size(pointers) - (deterministic() ? 1 : 0)));
  }

 private:
  using PlansOfSizes = std::map<int64_t, cudnn::Plan>;

  static int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }
  bool deterministic() const { return context_.config.deterministic; }
  int64_t head_size() const { return desc_.width / desc_.heads; }
  int64_t rows(int64_t n) const { return n * desc_.heads * desc_.tokens; }
  cudnn::Rules rules() const { return {context_.config.precision, deterministic(), cudnn_workspace_limit()}; }

  cudnn::AttentionGraph graph(bool backward, int64_t n) const {
    return backward ? cudnn::attention_backward_graph(desc_, n, deterministic())
                    : cudnn::attention_forward_graph(desc_, n);
  }

  std::string describe(bool backward, int64_t n) const {
    return fmt::format("{} of attention, {} samples of {} tokens, {} heads of {}{}",
                       backward ? "gradient" : "forward pass", n, desc_.tokens, desc_.heads, head_size(),
                       desc_.causal ? ", causal" : "");
  }

  cudnn::Choice choose(bool backward) {
    const bool orderly = !backward || !deterministic() || keeps_order();
    if (batch_sizes_.empty() || !orderly) return library_->choose(context_, std::nullopt);
    const int64_t n = std::ranges::max(batch_sizes_);
    const cudnn::AttentionGraph attention = graph(backward, n);
    std::vector<int64_t> bytes;
    for (const int operand : attention.operands) bytes.push_back(attention.tensors[operand].bytes());
    return library_->choose(context_, EngineSearch{.name = describe(backward, n),
                                                   .graph = [&] { return graph_of(library_->target, attention); },
                                                   .bytes = std::move(bytes),
                                                   .type = DType::bf16,
                                                   .rules = rules(),
                                                   .candidates = kAttentionEngines,
                                                   .required = false});
  }

  // Layers of equal shapes have one kernel.
  bool add_plan(bool backward, int64_t n, const cudnn::Choice& choice, PlansOfSizes& plans, int64_t& workspace) {
    const auto [at, is_new] = library_->compiled.try_emplace(describe(backward, n));
    if (is_new)
      at->second = make_plan(library_->target, graph_of(library_->target, graph(backward, n)), rules(), choice);
    if (!at->second) return false;
    workspace = std::max(workspace, at->second->workspace());
    plans.emplace(n, *at->second);
    return true;
  }

  int64_t samples(const Tensor& qkv, const Tensor& y) const {
    DDP_EXPECT(qkv.format == Format{} && y.format == Format{} && qkv.dtype == DType::bf16 && y.dtype == DType::bf16);
    DDP_EXPECT(y.shape.image.elements() == desc_.tokens * desc_.width && qkv.shape.n == y.shape.n);
    DDP_EXPECT(qkv.shape.elements() == 3 * y.shape.elements());
    return qkv.shape.n;
  }

  // Query, key or value of the first token.
  void* part(const Tensor& qkv, int64_t which) const {
    return static_cast<std::byte*>(qkv.data) + which * desc_.width * size_of(DType::bf16);
  }

  void run(PlansOfSizes& plans, int64_t n, std::span<void* const> pointers) {
    const auto found = plans.find(n);
    require(found != plans.end(), Exit::internal, "attention was not planned for {} samples", n);
    found->second.run(library_->handle.get(), pointers, context_.workspace.data());
  }

  std::shared_ptr<CudnnLibrary> library_;
  CudaContext& context_;
  AttentionDesc desc_;
  std::vector<int64_t> batch_sizes_;
  PlansOfSizes forward_, backward_;
  Buffer lse_;                                // of the last forward
  int64_t means_at_ = 0, query_sums_at_ = 0;  // in the workspace, in bytes
};

}  // namespace

std::unique_ptr<Attention> CudaOps::attention(const AttentionDesc& desc, std::span<const int64_t> batch_sizes) {
  DDP_EXPECT(desc.tokens > 0 && desc.width % desc.heads == 0);
  if (suits_cudnn(context_, desc))
    if (auto fused = std::make_unique<CudnnAttention>(cudnn_, context_, desc, batch_sizes); fused->plan()) return fused;
  return make_attention_kernels(context_, desc, batch_sizes);
}

}  // namespace ddp
