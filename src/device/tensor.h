// A view of an activation; it owns no memory and is cheap to copy. The arena of the model owns the memory.
#pragma once

#include "core/dtype.h"
#include "core/shape.h"
#include "device/format.h"

namespace ddp {

struct Tensor {
  void* data = nullptr;
  Shape shape;
  Format format;
  DType dtype = DType::f32;

  float* f32() const { return static_cast<float*>(data); }
  int64_t stored() const { return stored_elements(shape, format); }  // elements in memory, padding included
};

}  // namespace ddp
