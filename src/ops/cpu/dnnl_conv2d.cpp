#include "core/error.h"
#include "device/buffer.h"
#include "ops/cpu/conv2d.h"
#include "ops/cpu/dnnl.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/layout.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

namespace ddp {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Arguments = std::unordered_map<int, memory>;

memory::desc describe(const memory::dims& dims, Tag tag) { return {dims, memory::data_type::f32, tag}; }

memory::desc describe(const Shape& shape, Format format) {
  const memory::dims dims{shape.n, shape.image.c, shape.image.h, shape.image.w};
  switch (format.kind) {
    case Format::Kind::dense: return describe(dims, Tag::nhwc);
    case Format::Kind::lanes: return describe(dims, format.block == 16 ? Tag::Acdb16a : Tag::Acdb8a);
    case Format::Kind::channels: return describe(dims, format.block == 16 ? Tag::nChw16c : Tag::nChw8c);
  }
  fail(Exit::internal, "a tensor of no known format");
}

// One oneDNN primitive for one batch size, with the reorders between our formats and those that it wants. An operand
// is "ours" in memory that a call names, or a copy in memory of this step's own.
class Step {
 public:
  Step(const dnnl::engine& engine, dnnl::stream& stream, const Workers& workers)
      : engine_(engine), stream_(stream), workers_(workers) {}

  void input(int id, const memory::desc& ours, const memory::desc& wanted) { operand(id, ours, wanted, true); }
  void output(int id, const memory::desc& ours, const memory::desc& wanted) { operand(id, ours, wanted, false); }

  void primitive(dnnl::primitive p, const memory::desc& scratchpad, const Buffer& scratch) {
    primitive_ = std::move(p);
    scratch_ = &scratch;
    arguments_[DNNL_ARG_SCRATCHPAD] = memory(scratchpad, engine_, nullptr);
  }

  void set(int id, const void* data) { operands_.at(id).ours.set_data_handle(const_cast<void*>(data)); }

  // Inputs other than `id` are left as the last call had them: packed weights are copied only when bound.
  void pack(int id) { operands_.at(id).copy(stream_); }

  void run(std::initializer_list<int> changed) {
    for (const int id : changed) {
      Operand& operand = operands_.at(id);
      if (operand.is_input && operand.reorders()) {
        operand.copy(stream_);
        workers_.device.poll();
      }
    }
    for (auto& [id, operand] : operands_) arguments_[id] = operand.reorders() ? operand.theirs : operand.ours;
    arguments_[DNNL_ARG_SCRATCHPAD].set_data_handle(scratch_->data());
    primitive_.execute(stream_, arguments_);
    workers_.device.poll();
    for (auto& [id, operand] : operands_)
      if (!operand.is_input && operand.reorders()) {
        operand.copy(stream_);
        workers_.device.poll();
      }
    stream_.wait();
  }

 private:
  struct Operand {
    memory ours, theirs;
    bool is_input;
    Buffer storage;
    dnnl::reorder move;

    bool reorders() const { return storage.data() != nullptr; }
    void copy(dnnl::stream& stream) {
      if (!reorders()) return;
      if (is_input)
        move.execute(stream, ours, theirs);
      else
        move.execute(stream, theirs, ours);
    }
  };

  void operand(int id, const memory::desc& ours, const memory::desc& wanted, bool is_input) {
    Operand o{memory(ours, engine_, nullptr), {}, is_input, {}, {}};
    if (ours != wanted) {
      o.storage = Buffer(workers_.device, wanted.get_size());
      o.theirs = memory(wanted, engine_, o.storage.data());
      o.move = is_input ? dnnl::reorder(o.ours, o.theirs) : dnnl::reorder(o.theirs, o.ours);
    }
    operands_.emplace(id, std::move(o));
  }

  dnnl::engine engine_;
  dnnl::stream& stream_;
  Workers workers_;
  std::map<int, Operand> operands_;
  dnnl::primitive primitive_;
  const Buffer* scratch_ = nullptr;
  Arguments arguments_;
};

struct Steps {
  Step forward, weights, data;
};

class DnnlConv2d final : public Conv2d {
 public:
  DnnlConv2d(const Workers& workers, const Conv2dDesc& desc, std::span<const int64_t> batch_sizes)
      : workers_(workers), desc_(desc), out_(conv2d_output(desc)), stream_(engine_) {
    DDP_EXPECT(!batch_sizes.empty());
    const int64_t most = *std::max_element(batch_sizes.begin(), batch_sizes.end());
    output_format_ = preferred_output(most);
    const int64_t weights = out_.c * desc.window.kernel * desc.window.kernel * desc.input.c;
    added_ = Buffer(workers.device, sizeof(float) * (weights + out_.c));
    size_t scratch = 1;
    for (const int64_t n : batch_sizes)
      if (n > 0 && !steps_.contains(n)) steps_.emplace(n, plan(n, scratch));
    scratch_ = Buffer(workers.device, scratch);
  }

  Format output_format() const override { return output_format_; }

  void bind(const float* weight, const float* bias) override {
    for (auto& [n, steps] : steps_) {
      steps.forward.set(DNNL_ARG_WEIGHTS, weight);
      steps.forward.set(DNNL_ARG_BIAS, bias);
      steps.forward.pack(DNNL_ARG_WEIGHTS);
      if (!desc_.input_gradient) continue;
      steps.data.set(DNNL_ARG_WEIGHTS, weight);
      steps.data.pack(DNNL_ARG_WEIGHTS);
    }
    stream_.wait();
  }

  void forward(const Tensor& x, const Tensor& y) override {
    Step& step = steps(x, y).forward;
    step.set(DNNL_ARG_SRC, x.data);
    step.set(DNNL_ARG_DST, y.data);
    step.run({DNNL_ARG_SRC});
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias,
                       Gradient mode) override {
    Step& step = steps(x, dy).weights;
    if (desc_.relu) relu_backward(workers_, y, dy, dy);
    const int64_t weights = out_.c * desc_.window.kernel * desc_.window.kernel * desc_.input.c;
    float* to = mode == Gradient::add ? added_.as<float>() : dweight;
    float* to_bias = mode == Gradient::add ? added_.as<float>() + weights : dbias;
    step.set(DNNL_ARG_SRC, x.data);
    step.set(DNNL_ARG_DIFF_DST, dy.data);
    step.set(DNNL_ARG_DIFF_WEIGHTS, to);
    step.set(DNNL_ARG_DIFF_BIAS, to_bias);
    step.run({DNNL_ARG_SRC, DNNL_ARG_DIFF_DST});
    if (mode == Gradient::overwrite) return;
    add(workers_, to, dweight, weights);
    add(workers_, to_bias, dbias, out_.c);
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    DDP_EXPECT(desc_.input_gradient);
    Step& step = steps(dx, dy).data;
    step.set(DNNL_ARG_DIFF_DST, dy.data);
    step.set(DNNL_ARG_DIFF_SRC, dx.data);
    step.run({DNNL_ARG_DIFF_DST});
  }

 private:
  Steps& steps(const Tensor& x, const Tensor& y) {
    DDP_EXPECT(x.format == desc_.input_format && y.format == output_format_);
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == out_ && x.shape.n == y.shape.n);
    const auto found = steps_.find(x.shape.n);
    require(found != steps_.end(), Exit::internal, "a convolution was given {} samples, a batch size not declared",
            x.shape.n);
    return found->second;
  }

  // Weights are always "any"; `x` and `y` are "any" where the library may choose.
  onednn::ConvShape shape(int64_t n, Tag x, Tag y) const {
    const int64_t k = desc_.window.kernel;
    return {.src = describe({n, desc_.input.c, desc_.input.h, desc_.input.w}, x),
            .weights = describe({out_.c, desc_.input.c, k, k}, Tag::any),
            .bias = describe({out_.c}, Tag::x),
            .dst = describe({n, out_.c, out_.h, out_.w}, y),
            .strides = {desc_.window.stride, desc_.window.stride},
            .padding = {desc_.window.padding, desc_.window.padding}};
  }

  dnnl::primitive_attr attributes(bool relu) const {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (relu) attr.set_post_ops(onednn::relu_post_op());
    return attr;
  }

  Format preferred_output(int64_t n) const {
    const auto chosen = onednn::forward(engine_, shape(n, Tag::any, Tag::any), attributes(desc_.relu)).dst_desc();
    for (const Format format : {Format::channels(16), Format::channels(8)})
      if (chosen == describe({n, out_}, format)) return format;
    return {};
  }

  Steps plan(int64_t n, size_t& scratch) {
    const auto x = describe({n, desc_.input}, desc_.input_format), y = describe({n, out_}, output_format_);
    const int64_t k = desc_.window.kernel;
    const auto w = describe({out_.c, desc_.input.c, k, k}, Tag::ohwi), b = describe({out_.c}, Tag::x);
    onednn::ConvShape s = shape(n, Tag::any, Tag::any);
    Steps steps{{engine_, stream_, workers_}, {engine_, stream_, workers_}, {engine_, stream_, workers_}};

    s.dst = y;
    const auto forward = onednn::forward(engine_, s, attributes(desc_.relu));
    steps.forward.input(DNNL_ARG_SRC, x, forward.src_desc());
    steps.forward.input(DNNL_ARG_WEIGHTS, w, forward.weights_desc());
    steps.forward.input(DNNL_ARG_BIAS, b, b);
    steps.forward.output(DNNL_ARG_DST, y, forward.dst_desc());
    steps.forward.primitive(dnnl::convolution_forward(forward), forward.scratchpad_desc(), scratch_);
    scratch = std::max(scratch, forward.scratchpad_desc().get_size());

    s.dst = describe({n, out_.c, out_.h, out_.w}, Tag::any);
    const auto weights = onednn::backward_weights(engine_, s, attributes(false), forward);
    steps.weights.input(DNNL_ARG_SRC, x, weights.src_desc());
    steps.weights.input(DNNL_ARG_DIFF_DST, y, weights.diff_dst_desc());
    steps.weights.output(DNNL_ARG_DIFF_WEIGHTS, w, weights.diff_weights_desc());
    steps.weights.output(DNNL_ARG_DIFF_BIAS, b, b);
    steps.weights.primitive(dnnl::convolution_backward_weights(weights), weights.scratchpad_desc(), scratch_);
    scratch = std::max(scratch, weights.scratchpad_desc().get_size());
    if (!desc_.input_gradient) return steps;

    const auto data = onednn::backward_data(engine_, s, attributes(false), forward);
    steps.data.input(DNNL_ARG_DIFF_DST, y, data.diff_dst_desc());
    steps.data.input(DNNL_ARG_WEIGHTS, w, data.weights_desc());
    steps.data.output(DNNL_ARG_DIFF_SRC, x, data.diff_src_desc());
    steps.data.primitive(dnnl::convolution_backward_data(data), data.scratchpad_desc(), scratch_);
    scratch = std::max(scratch, data.scratchpad_desc().get_size());
    return steps;
  }

  Workers workers_;
  Conv2dDesc desc_;
  ImageShape out_;
  Format output_format_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_;
  Buffer scratch_;  // for one primitive at a time
  Buffer added_;    // weight and bias gradient on their way to be added
  std::map<int64_t, Steps> steps_;
};

}  // namespace

std::unique_ptr<Conv2d> make_dnnl_conv2d(const Workers& workers, const Conv2dDesc& desc,
                                         std::span<const int64_t> batch_sizes) {
  return std::make_unique<DnnlConv2d>(workers, desc, batch_sizes);
}

}  // namespace ddp
