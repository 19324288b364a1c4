// A network as a chain of layers, described before anything is allocated. Shapes are inferred as layers are added; a
// layer that does not fit its input throws Error(Exit::model) with both. Layers are numbered as in the same network
// written as a PyTorch nn.Sequential.
#pragma once

#include "core/shape.h"
#include "ops/conv2d.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddp {

struct LayerSpec {
  enum class Kind { conv2d, relu, avg_pool2d, flatten, linear };
  Kind kind;
  ImageShape input, output;
  Window2d window;            // conv2d and avg_pool2d
  bool relu = false;          // conv2d and linear: the next layer is a ReLU, fused into this one
  bool view = false;          // the output is the input, seen otherwise: flatten, or a ReLU fused into its predecessor
  ImageShape flattened = {};  // linear: the image that its features were flattened from
};

const char* name_of(LayerSpec::Kind kind);

class Network {
 public:
  Network(std::string name, ImageShape input);

  Network& conv2d(int64_t out_channels, int64_t kernel, int64_t stride = 1, int64_t padding = 0);
  Network& relu();
  Network& avg_pool2d(int64_t kernel);  // stride = kernel
  Network& flatten();
  Network& linear(int64_t out_features);

  const std::string& name() const { return name_; }
  ImageShape input() const { return input_; }
  ImageShape output() const { return layers_.empty() ? input_ : layers_.back().output; }
  const std::vector<LayerSpec>& layers() const { return layers_; }

  // The same layers, each computing only the rows and columns that later layers read: a pooling that leaves out the
  // last ones makes superfluous what leads to them. The first layer's input is the top left of the image. Results and
  // gradients are the same. (LeNet on 28 x 28 reads 26 x 26, and its second convolution gives 8 x 8, not 9 x 9.)
  std::vector<LayerSpec> trimmed_layers() const;

 private:
  void add(LayerSpec layer, const std::string& what);

  std::string name_;
  ImageShape input_;
  std::vector<LayerSpec> layers_;
};

}  // namespace ddp
