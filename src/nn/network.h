// A network as a graph of layers, described before anything is allocated. Each call adds a layer behind the last one;
// residual() adds two paths and their sum. Shapes are inferred as layers are added; a layer that does not fit its input
// throws Error(Exit::model) with its name and both.
//
// Layers are named as in the same network written in PyTorch: by their number in the nn.Sequential around them, or by
// the name that named() gives to the next one, behind the names of the blocks they are in: "layer1.0.conv1".
#pragma once

#include "core/shape.h"
#include "ops/pool2d.h"
#include "ops/window.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// Defaults are PyTorch's.
struct ConvOptions {
  int64_t stride = 1;
  Padding padding = {};
  bool same = false;  // Keras's padding="same" in place of `padding`
  bool bias = true;
};

struct NormOptions {
  float epsilon = 1e-5f;
  float momentum = 0.1f;  // the weight of the new statistics in the running ones; Keras's is one minus it
  bool scale = true;      // whether a trained factor follows the normalisation
  bool unbiased = true;   // whether the running variance is that of an unbiased estimate; Keras's is not
};

struct LayerSpec {
  enum class Kind { conv2d, linear, batch_norm, relu, pool2d, flatten, dropout, add };
  static constexpr int kImage = -1, kNone = -2;  // in the place of a layer

  Kind kind;
  std::string name = {};  // PyTorch's
  int from = kImage;      // the layer whose output it reads
  int skip = kNone;       // add, and a batch_norm with one fused into it: the other input
  ImageShape input = {}, output = {};
  bool relu = false;          // the ReLU that follows is fused into this one: conv2d, linear, batch_norm
  bool view = false;          // the output is that of `from`, seen otherwise: flatten, or what is fused into `from`
  Window2d window = {};       // conv2d, pool2d
  bool bias = true;           // conv2d
  ImageShape flattened = {};  // linear: the image that its features were flattened from
  Pool2dDesc::Kind pool = Pool2dDesc::Kind::average;
  NormOptions norm = {};
  float rate = 0;  // dropout
};

const char* name_of(LayerSpec::Kind kind);

class Network {
 public:
  Network(std::string name, ImageShape input);

  Network& conv2d(int64_t out_channels, int64_t kernel, const ConvOptions& options = {});
  Network& linear(int64_t out_features);
  Network& batch_norm(const NormOptions& options = {});
  Network& relu();
  Network& avg_pool2d(int64_t kernel);  // stride = kernel
  Network& max_pool2d(int64_t kernel, int64_t stride, Padding padding = {});
  Network& global_avg_pool();
  Network& flatten();
  Network& dropout(float rate);

  Network& named(std::string name);  // the next layer, block or sum

  using AddLayers = std::function<void(Network&)>;
  Network& block(const AddLayers& layers);  // an nn.Sequential inside this one
  // relu(main(x) + shortcut(x)); an empty shortcut is x itself.
  Network& residual(const AddLayers& main, const AddLayers& shortcut);

  const std::string& name() const { return name_; }
  ImageShape input() const { return input_; }
  ImageShape output() const { return at(last_); }
  const std::vector<LayerSpec>& layers() const { return layers_; }

  // The same network with dropout rates of 0, to compare it with others.
  Network without_dropout() const;

  // The same layers, each computing only the rows and columns that later layers read: a pooling that leaves out the
  // last ones makes superfluous what leads to them. The first layer's input is the top left of the image. Results and
  // gradients are the same. (LeNet on 28 x 28 reads 26 x 26, and its second convolution gives 8 x 8, not 9 x 9.)
  std::vector<LayerSpec> trimmed_layers() const;

 private:
  ImageShape at(int layer) const { return layer == LayerSpec::kImage ? input_ : layers_[layer].output; }
  std::string peek_name() const;  // of the next layer
  std::string take_name();
  int flatten_before() const;
  void add(LayerSpec layer, const std::string& what, bool fits = true);
  void add_pool(Pool2dDesc::Kind kind, const Window2d& window, const std::string& what);

  std::string name_;
  ImageShape input_;
  std::vector<LayerSpec> layers_;
  int last_ = LayerSpec::kImage;  // the layer that the next one follows
  bool forked_ = false;           // another path reads the last layer's output too: nothing is fused into that
  std::string prefix_;            // of the block at hand
  int number_ = 0;                // of the next layer in it
  std::optional<std::string> given_name_;
};

}  // namespace ddp
