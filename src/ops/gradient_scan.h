// The last pass over the gradients of a rank before their sum over ranks: it takes those that an op has left in bf16,
// looks for NaN and infinity, and sums squares.
#pragma once

#include "ops/gradient.h"

#include <cstdint>

namespace ddp {

// One tensor of the flat buffer, in elements. Tensors are in ascending order and start at multiples of 16. The gaps
// between them hold 0.
struct ScannedTensor {
  int64_t offset = 0, count = 0;
  float mark = 0;     // above 0; does not fall from tensor to tensor
  bool bf16 = false;  // its op may leave the gradient in bf16
};

// The tensors in [begin, begin + count), whole.
struct ScannedPart {
  float* gradients = nullptr;           // the whole flat buffer
  const uint16_t* bf16 = nullptr;       // the whole flat buffer in bf16; null: the gradients are all in f32
  Gradient mode = Gradient::overwrite;  // how those in bf16 become f32
  int64_t begin = 0, count = 0;
};

// A plan.
class GradientScan {
 public:
  virtual ~GradientScan() = default;

  // Sets *flag to the least mark of the tensors with NaN or infinity, if there are such tensors and *flag is 0. Sets
  // *squares to the sum of the squares of the part, or adds it. The same bits on every run.
  virtual void run(const ScannedPart& part, float* flag, float* squares, Gradient squares_mode) = 0;
};

}  // namespace ddp
