// The convolutions of models, and a GPU to plan them for.
#pragma once

#include "nn/network.h"
#include "ops/conv2d.h"
#include "ops/cuda/cudnn_graph.h"

#include <string>
#include <vector>

namespace ddp::cudnn::testing {

struct Convolution {
  std::string name;  // with model and shapes
  Conv2dDesc desc;
};

// The distinct convolutions of a model, as its layers describe them.
std::vector<Convolution> convolutions_of(const Network& model);
std::vector<Convolution> convolutions_of(const std::string& model);

// A GPU of a file of this folder, without a driver or a GPU.
Target described_gpu(const std::string& name);
Target h200();

}  // namespace ddp::cudnn::testing
