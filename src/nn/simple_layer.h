// A layer without a plan: some ops forward, some ops backward.
#pragma once

#include "nn/layer.h"

#include <utility>
#include <vector>

namespace ddp {

class SimpleLayer : public Layer {
 public:
  SimpleLayer(Ops& ops, Format format, std::vector<int> parameters = {})
      : Layer(std::move(parameters)), ops_(ops), format_(format) {}
  Format output_format() const override { return format_; }
  bool saves_input() const override { return false; }
  bool saves_output() const override { return false; }

 protected:
  Ops& ops_;
  Format format_;
};

}  // namespace ddp
