#include "ops/cpu/dnnl_execution.h"

#include "core/error.h"

#include <algorithm>
#include <utility>

namespace ddp::onednn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr size_t kAlignment = 64;

// A reorder that adds to its destination.
dnnl::reorder adding_reorder(const memory& from, const memory& to) {
  dnnl::post_ops sum;
  sum.append_sum(1.0f);
  dnnl::primitive_attr attr;
  attr.set_post_ops(sum);
  return {from, to, attr};
}

// Whether `ours` is in bf16, `wanted` in f32, and all else is equal.
bool differs_in_type([[maybe_unused]] memory::desc ours, [[maybe_unused]] const memory::desc& wanted) {
#if DNNL_VERSION_MAJOR < 3
  if (ours.data_type() != memory::data_type::bf16 || wanted.data_type() != memory::data_type::f32) return false;
  ours.data.data_type = wanted.data.data_type;
  return ours == wanted;
#else
  return false;
#endif
}

}  // namespace

// With one channel, nchw and nhwc are the same memory. oneDNN has fast kernels for one channel in nchw only.
memory::desc describe(const Shape& shape, Format format, DType dtype) {
  const memory::dims dims{shape.n, shape.image.c, shape.image.h, shape.image.w};
  const auto tag = [&] {
    switch (format.kind) {
      case Format::Kind::dense: return shape.image.c == 1 ? Tag::nchw : Tag::nhwc;
      case Format::Kind::batch_interleaved: return format.block == 16 ? Tag::Acdb16a : Tag::Acdb8a;
      case Format::Kind::blocked_channels: return format.block == 16 ? Tag::nChw16c : Tag::nChw8c;
    }
    fail(Exit::internal, "unknown tensor format");
  };
  return {dims, dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32, tag()};
}

PackedWeights::PackedWeights(Context& context, const memory::desc& dense, const memory::desc& wanted)
    : context_(context),
      wanted_(wanted),
      storage_(context.workers.device, wanted.get_size()),
      dense_(dense, context.engine, nullptr),
      packed_(wanted, context.engine, storage_.data()),
      reorder_(dense_, packed_) {}

void PackedWeights::bind(const float* dense) {
  dense_.set_data_handle(const_cast<float*>(dense));
  stale_ = true;
}

const memory& PackedWeights::use() {
  if (std::exchange(stale_, false)) {
    reorder_.execute(context_.stream, dense_, packed_);
    context_.workers.device.poll();
  }
  return packed_;
}

Execution::Execution(Context& context, dnnl::primitive primitive, const memory::desc& scratchpad)
    : context_(&context), primitive_(std::move(primitive)), scratchpad_(scratchpad, context.engine, nullptr) {
  reserve(scratchpad.get_size());
  arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratchpad_.get()});
}

size_t Execution::reserve(size_t bytes) {
  const size_t scratch_offset = reserved_;
  reserved_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  context_->scratch.reserve(reserved_);
  return scratch_offset;
}

void Execution::add(int id, Role role, const memory::desc& ours, const memory::desc& wanted) {
  Operand o{.id = id,
            .role = role,
            .ours = memory(ours, context_->engine, nullptr),
            .staged = {},
            .scratch_offset = 0,
            .converts = role != Role::gradient && differs_in_type(ours, wanted),
            .reorder = {},
            .reorder_adding = {},
            .packed = nullptr};
  if (ours != wanted || role == Role::gradient) {
    o.scratch_offset = reserve(wanted.get_size());
    o.staged = memory(wanted, context_->engine, nullptr);
    if (!o.converts)
      o.reorder = role == Role::input ? dnnl::reorder(o.ours, o.staged) : dnnl::reorder(o.staged, o.ours);
    if (role == Role::gradient) o.reorder_adding = adding_reorder(o.staged, o.ours);
  }
  arguments_.push_back({id, o.is_staged() ? o.staged.get() : o.ours.get()});
  operands_.push_back(std::move(o));
}

void Execution::input(int id, const memory::desc& ours, const memory::desc& wanted) {
  add(id, Role::input, ours, wanted);
}
void Execution::output(int id, const memory::desc& ours, const memory::desc& wanted) {
  add(id, Role::output, ours, wanted);
}
void Execution::gradient(int id, const memory::desc& ours, const memory::desc& wanted) {
  add(id, Role::gradient, ours, wanted);
}

void Execution::weights(int id, PackedWeights& packed) {
  arguments_.push_back({id, nullptr});
  operands_.push_back({.id = id,
                       .role = Role::weights,
                       .ours = {},
                       .staged = {},
                       .scratch_offset = 0,
                       .converts = false,
                       .reorder = {},
                       .reorder_adding = {},
                       .packed = &packed});
}

// Between bf16 in the caller's memory and f32.
void Execution::convert(const Operand& operand) const {
  const Workers& workers = context_->workers;
  auto* const ours = static_cast<uint16_t*>(operand.ours.get_data_handle());
  auto* const staged = static_cast<float*>(operand.staged.get_data_handle());
  workers.spans(static_cast<int64_t>(operand.staged.get_desc().get_size() / sizeof(float)),
                [&](int64_t first, int64_t end) {
                  if (operand.role == Role::input)
                    workers.kernels.flat.from_bf16(ours + first, staged + first, end - first);
                  else
                    workers.kernels.flat.to_bf16(staged + first, ours + first, end - first);
                });
}

// From the caller's memory to the scratch for an input, else back. `mode` holds for gradients.
void Execution::copy(Operand& o, Gradient mode) const {
  if (o.converts) return convert(o);
  const bool adds = o.role == Role::gradient && mode == Gradient::add, in = o.role == Role::input;
  (adds ? o.reorder_adding : o.reorder).execute(context_->stream, in ? o.ours : o.staged, in ? o.staged : o.ours);
  context_->workers.device.poll();
}

void Execution::run(std::initializer_list<Address> addresses, Gradient mode) {
  dnnl::stream& stream = context_->stream;
  for (const auto& [id, data] : addresses) {
    const auto named = [id = id](const Operand& o) { return o.id == id; };
    const auto operand = std::find_if(operands_.begin(), operands_.end(), named);
    DDP_EXPECT(operand != operands_.end());
    operand->ours.set_data_handle(const_cast<void*>(data));
  }
  auto* const scratch = static_cast<std::byte*>(context_->scratch.data());
  scratchpad_.set_data_handle(scratch);
  for (size_t i = 0; i < operands_.size(); ++i) {
    Operand& o = operands_[i];
    if (o.packed) arguments_[i + 1].memory = o.packed->use().get();
    if (!o.is_staged()) continue;
    o.staged.set_data_handle(scratch + o.scratch_offset);
    if (o.role == Role::input) copy(o, mode);
  }
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(arguments_.size()), arguments_.data()),
      "oneDNN cannot run a convolution");
  context_->workers.device.poll();
  for (Operand& o : operands_)
    if (o.is_staged() && o.role != Role::input) copy(o, mode);
  stream.wait();
}

}  // namespace ddp::onednn
