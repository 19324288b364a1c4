// One layer of a model at work: it binds an op to tensors and parameters, and owns neither.
#pragma once

#include "device/tensor.h"
#include "nn/network.h"
#include "nn/parameters.h"
#include "ops/ops.h"

#include <functional>
#include <memory>
#include <span>

namespace ddp {

// Called when the gradient of parameter `id` is issued and final for this step.
using Announce = std::function<void(int id)>;

class Layer {
 public:
  virtual ~Layer() = default;
  virtual Format output_format() const = 0;

  // What backward reads, for the memory plan.
  virtual bool keeps_input() const = 0;
  virtual bool keeps_output() const = 0;

  // To be called again whenever the values in `weights` (flat) have changed.
  virtual void bind(const float* weights) { (void)weights; }
  virtual void forward(const Tensor& x, const Tensor& y) = 0;

  // Weight gradients, announced; then the input gradient, unless dx has no data. May overwrite dy.
  virtual void backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx, float* gradients,
                        const Announce& announce) = 0;
};

// `first`: no input gradient is wanted. Null for a view.
std::unique_ptr<Layer> make_layer(const LayerSpec& spec, int index, bool first, Format input_format,
                                  std::span<const Parameter> parameters, Ops& ops,
                                  std::span<const int64_t> batch_sizes);

Conv2dDesc conv2d_desc(const LayerSpec& spec, bool first, Format input_format);

}  // namespace ddp
