// One oneDNN primitive for one batch size, with reorders between our formats and the formats that it needs. If they are
// equal, the primitive uses the caller's memory ("ours"); if not, the operand is staged: copied to or from the scratch.
#pragma once

#include "device/format.h"
#include "device/scratch.h"
#include "device/tensor.h"
#include "ops/cpu/dnnl.h"
#include "ops/cpu/parallel.h"
#include "ops/gradient.h"

#include <initializer_list>
#include <vector>

namespace ddp::onednn {

// Shared by all executions of a convolution, and outlives them.
struct Context {
  Workers workers;
  dnnl::engine engine;
  dnnl::stream stream;
  Scratch& scratch;
};

dnnl::memory::desc describe(const Shape& shape, Format format, DType dtype);

// A copy of the weights in the layout that a primitive needs. Executions that need the same layout share it.
class PackedWeights {
 public:
  PackedWeights(Context& context, const dnnl::memory::desc& dense, const dnnl::memory::desc& wanted);

  const dnnl::memory::desc& desc() const { return wanted_; }
  void bind(const float* dense);  // marks the copy stale; call it after each change of the weights
  const dnnl::memory& use();      // refreshes a stale copy

 private:
  Context& context_;
  dnnl::memory::desc wanted_;
  Buffer storage_;
  dnnl::memory dense_, packed_;
  dnnl::reorder reorder_;
  bool stale_ = false;
};

class Execution {
 public:
  Execution(Context& context, dnnl::primitive primitive, const dnnl::memory::desc& scratchpad);
  Execution(Execution&&) = default;

  void input(int id, const dnnl::memory::desc& ours, const dnnl::memory::desc& wanted);
  void output(int id, const dnnl::memory::desc& ours, const dnnl::memory::desc& wanted);
  // Always staged, so that it can be added to the caller's gradient.
  void gradient(int id, const dnnl::memory::desc& ours, const dnnl::memory::desc& wanted);
  void weights(int id, PackedWeights& packed);

  struct Address {
    int id;
    const void* data;
  };
  // Sets the caller's addresses and runs. `mode` holds for gradient operands.
  void run(std::initializer_list<Address> addresses, Gradient mode = Gradient::overwrite);

 private:
  enum class Role { input, output, gradient, weights };
  struct Operand {
    int id;
    Role role;
    dnnl::memory ours, staged;  // staged is empty if the primitive uses `ours`
    size_t scratch_offset;      // of `staged`, in bytes
    bool converts;  // staged differs from ours in the type of its values only, which our kernels convert faster
    dnnl::reorder reorder, reorder_adding;
    PackedWeights* packed;

    bool is_staged() const { return static_cast<bool>(staged); }
  };
  void add(int id, Role role, const dnnl::memory::desc& ours, const dnnl::memory::desc& wanted);
  void convert(const Operand& operand) const;
  void copy(Operand& operand, Gradient mode) const;
  size_t reserve(size_t bytes);

  Context* context_;
  dnnl::primitive primitive_;
  dnnl::memory scratchpad_;
  size_t reserved_ = 0;  // bytes of the scratch
  std::vector<Operand> operands_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

}  // namespace ddp::onednn
