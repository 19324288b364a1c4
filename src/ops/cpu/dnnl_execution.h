// One oneDNN primitive for one number of samples, with the reorders between our formats and those that it wants. An
// operand is "ours", memory that a call names, or is staged: copied to or from a place in the shared scratch.
#pragma once

#include "device/format.h"
#include "device/tensor.h"
#include "ops/cpu/dnnl.h"
#include "ops/cpu/dnnl_scratch.h"
#include "ops/cpu/parallel.h"
#include "ops/gradient.h"

#include <initializer_list>
#include <vector>

namespace ddp::onednn {

// What all steps of a convolution share; it outlives them.
struct Context {
  Workers workers;
  dnnl::engine engine;
  dnnl::stream stream;
  Scratch& scratch;
};

dnnl::memory::desc describe(const Shape& shape, Format format, DType dtype);

// A copy of weights in the layout that a primitive wants, shared by all steps that want the same. It is made anew at
// the first use after the weights have changed.
class PackedWeights {
 public:
  PackedWeights(Context& context, const dnnl::memory::desc& dense, const dnnl::memory::desc& wanted);

  const dnnl::memory::desc& desc() const { return wanted_; }
  void bind(const float* dense);
  const dnnl::memory& use();

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
  // Staged always, so that it can be added to what is there.
  void gradient(int id, const dnnl::memory::desc& ours, const dnnl::memory::desc& wanted);
  void weights(int id, PackedWeights& packed);

  struct Address {
    int id;
    const void* data;
  };
  // `mode` is for gradients.
  void run(std::initializer_list<Address> addresses, Gradient mode = Gradient::overwrite);

 private:
  enum class Role { input, output, gradient, weights };
  struct Operand {
    int id;
    Role role;
    dnnl::memory ours, staged;  // staged: empty where ours is what the primitive wants
    size_t scratch_offset;      // in the scratch
    dnnl::reorder reorder, reorder_adding;
    PackedWeights* packed;

    bool is_staged() const { return static_cast<bool>(staged); }
  };
  void add(int id, Role role, const dnnl::memory::desc& ours, const dnnl::memory::desc& wanted);
  size_t reserve(size_t bytes);

  Context* context_;
  dnnl::primitive primitive_;
  dnnl::memory scratchpad_;
  size_t reserved_ = 0;  // of the scratch
  std::vector<Operand> operands_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

}  // namespace ddp::onednn
