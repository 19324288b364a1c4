#include "core/error.h"
#include "ops/conv2d_text.h"
#include "ops/cuda/bias_gradient.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/cudnn_library.h"
#include "ops/cuda/elementwise.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace ddp {

namespace {

using cudnn::Choice;
using cudnn::Graph;
using cudnn::Pass;
using cudnn::Plan;

const char* name_of(Pass pass) {
  switch (pass) {
    case Pass::forward: return "forward pass";
    case Pass::weight_gradient: return "weight gradient";
    case Pass::input_gradient: return "input gradient";
  }
  return "";
}

// A convolution with cuDNN's graph API, in NHWC.
//
// All batch sizes use the engine that is chosen for the largest one (cudnn_library.h); if it does not support a batch
// size, that uses the engine that cuDNN recommends.
//
// cuDNN uses the weights in the flat buffers and writes their gradients there. In bf16 it computes the weight gradient
// in bf16 only: where that cannot be left, it goes to scratch memory first.
//
// cuDNN fuses a ReLU only after a bias. A convolution with a ReLU but no bias adds zeros.
class CudnnConv2d final : public Conv2d {
 public:
  CudnnConv2d(std::shared_ptr<CudnnLibrary> library, CudaContext& context, const Conv2dDesc& desc,
              std::span<const int64_t> batch_sizes)
      : library_(std::move(library)),
        context_(context),
        desc_(desc),
        adds_bias_(desc.bias || desc.relu),
        out_(conv2d_output(desc)),
        weights_count_(out_.c * desc.window.kernel * desc.window.kernel * desc.input.c / desc.groups),
        rules_{context.config.precision, context.config.deterministic, cudnn_workspace_limit()} {
    DDP_EXPECT(desc.input_format == Format{});
    for (const int64_t n : batch_sizes)
      if (n > 0) batch_sizes_.push_back(n);

    forward_ = plans(Pass::forward, choose(Pass::forward));
    Choice weight_gradient;
    if (desc.weight_gradient) {
      weight_gradient = choose(Pass::weight_gradient);
      weight_gradient_ = plans(Pass::weight_gradient, weight_gradient);
    }
    if (desc.input_gradient) input_gradient_ = plans(Pass::input_gradient, choose(Pass::input_gradient));
    if (adds_bias_ && !desc.bias) zeros_ = Buffer(context.device, out_.c * size_of(type()));
    if (desc.weight_gradient && bf16()) {
      scratch_offset_ = aligned(workspace_);
      workspace_ = scratch_offset_ + weights_count_ * size_of(type());
    } else if (desc.weight_gradient) {
      added_weight_gradient_ = plans(Pass::weight_gradient, weight_gradient, true);
    }
    context.workspace.reserve(workspace_);
    if (!sums_bias(desc)) return;
    for (const int64_t n : batch_sizes_) reserve_bias_gradient(context, n * out_.h * out_.w, out_.c);
  }

  Format output_format() const override { return {}; }

  void bind(const WeightData& weight, const WeightData& bias) override {
    weight_ = const_cast<void*>(weight.as(type()));  // cuDNN takes no pointers to const
    bias_ = desc_.bias ? const_cast<void*>(bias.as(type())) : zeros_.data();
  }

  void forward(const Tensor& x, const Tensor& y) override {
    const int64_t n = samples(x, y);
    if (adds_bias_)
      run(forward_, n, {x.data, weight_, y.data, bias_});
    else
      run(forward_, n, {x.data, weight_, y.data});
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t* left) override {
    const int64_t n = samples(x, dy);
    bias_gradient(context_, desc_.relu ? y : Tensor{}, dy, sums_bias(desc_) ? dbias : nullptr, mode);
    if (!dweight) return;
    if (bf16() && left) {
      run(weight_gradient_, n, {x.data, left, dy.data});
    } else if (bf16()) {
      void* scratch = static_cast<std::byte*>(context_.workspace.data()) + scratch_offset_;
      run(weight_gradient_, n, {x.data, scratch, dy.data});
      from_bf16(context_, scratch, dweight, weights_count_, mode);
    } else {
      run(mode == Gradient::add ? added_weight_gradient_ : weight_gradient_, n, {x.data, dweight, dy.data});
    }
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    DDP_EXPECT(desc_.input_gradient);
    run(input_gradient_, samples(dx, dy), {dx.data, weight_, dy.data});
  }

 private:
  using Plans = std::map<int64_t, Plan>;  // by batch size

  DType type() const { return context_.activations(); }
  bool bf16() const { return type() == DType::bf16; }
  static int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

  int64_t samples(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.format == Format{} && y.format == Format{} && x.dtype == type() && y.dtype == type());
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == out_ && x.shape.n == y.shape.n);
    return x.shape.n;
  }

  void run(Plans& plans, int64_t n, std::initializer_list<void*> pointers) {
    const auto found = plans.find(n);
    require(found != plans.end(), Exit::internal, "a convolution was not planned for {} samples", n);
    found->second.run(library_->handle.get(), std::span(pointers.begin(), pointers.size()), context_.workspace.data());
  }

  Graph graph(Pass pass, int64_t n, bool add = false) const {
    Conv2dDesc desc = desc_;
    desc.bias = adds_bias_;
    return conv_graph(library_->target, desc, n, type(), pass, add);
  }

  // Collective: all ranks call it, even a rank without batch sizes.
  Choice choose(Pass pass) {
    if (batch_sizes_.empty()) return library_->choose(context_, std::nullopt);
    const int64_t n = std::ranges::max(batch_sizes_);
    return library_->choose(context_, EngineSearch{.name = describe(pass, n),
                                                   .graph = [&] { return graph(pass, n); },
                                                   .bytes = operand_bytes(pass, n),
                                                   .type = type(),
                                                   .rules = rules_});
  }

  // All that its engines depend on.
  std::string describe(Pass pass, int64_t n) const {
    return fmt::format("{} of {}{}{}", name_of(pass), text_of(desc_, n), adds_bias_ ? ", bias" : "",
                       desc_.relu ? ", ReLU" : "");
  }

  Plans plans(Pass pass, const Choice& choice, bool add = false) {
    Plans made;
    for (const int64_t n : batch_sizes_) {
      if (made.contains(n)) continue;
      std::optional<Plan> plan = make_plan(library_->target, graph(pass, n, add), rules_, choice);
      if (!plan)
        fail(Exit::device,
             "cuDNN has no plan within {} bytes of workspace for the {} of a {}x{} convolution, {} images of {}x{}x{} "
             "to {} channels; try another --precision or --batch-size",
             rules_.workspace, name_of(pass), desc_.window.kernel, desc_.window.kernel, n, desc_.input.h, desc_.input.w,
             desc_.input.c, out_.c);
      workspace_ = std::max(workspace_, plan->workspace());
      made.emplace(n, std::move(*plan));
    }
    return made;
  }

  // In the order of the graph's operands.
  std::vector<int64_t> operand_bytes(Pass pass, int64_t n) const {
    std::vector<int64_t> elements{n * desc_.input.elements(), weights_count_, n * out_.elements()};
    if (pass == Pass::forward && adds_bias_) elements.push_back(out_.c);
    for (int64_t& count : elements) count *= size_of(type());
    return elements;
  }

  std::shared_ptr<CudnnLibrary> library_;
  CudaContext& context_;
  Conv2dDesc desc_;
  bool adds_bias_;
  ImageShape out_;
  int64_t weights_count_;
  cudnn::Rules rules_;
  std::vector<int64_t> batch_sizes_;
  int64_t workspace_ = 0, scratch_offset_ = 0;  // bytes

  Buffer zeros_;  // the bias of a ReLU without one
  void *weight_ = nullptr, *bias_ = nullptr;
  Plans forward_, weight_gradient_, added_weight_gradient_, input_gradient_;
};

}  // namespace

std::unique_ptr<Conv2d> CudaOps::conv2d(const Conv2dDesc& desc, std::span<const int64_t> batch_sizes) {
  return std::make_unique<CudnnConv2d>(cudnn_, context_, desc, batch_sizes);
}

}  // namespace ddp
