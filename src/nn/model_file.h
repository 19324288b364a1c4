// Networks as text, in TOML. This is the language:
//
//   name = "my_net"                       # optional; the default is the name of the file
//   layers = [                            # in order; each layer reads the output of the one before it
//     { conv2d = 64, kernel = 7, stride = 2, padding = 3, bias = false, name = "conv1" },
//     { batch_norm = true, name = "bn1" },
//     { activation = "relu" },
//     { block = "basic", width = 64, repeat = 2, name = "layer1" },
//     { global_avg_pool = true }, { flatten = true },
//     { linear = "classes", name = "fc" },
//   ]
//   [defaults.batch_norm]                 # optional: options of all layers of one kind
//   epsilon = 0.001
//   [blocks.basic]                        # a list of layers with parameters
//   parameters = { width = 64, stride = 1 }   # and their defaults; "required" is none; a name of an activation is one
//   layers = [ { conv2d = "width", kernel = 3, stride = "stride", padding = 1, name = "conv1" }, ...,
//              { add = "input" } ]
//
// A layer has one key that says its kind:
//
//   conv2d = channels           kernel (required), stride, padding (a number or "same"), dilation, groups, bias, init,
//                               bias_init
//   linear = features           bias, init, bias_init; transposed = true: PyTorch has the weight as in x out (Conv1D)
//   linear = "classes"          tied = "x": without a bias, with the table of the embedding of label x as its weight
//   batch_norm = true           epsilon, momentum, scale, unbiased
//   layer_norm = true           epsilon
//   group_norm = groups         epsilon
//   activation = "relu"         a name of ops/activation.h, or a parameter whose default is one; slope
//   max_pool2d = kernel         stride (default: kernel), padding
//   avg_pool2d = kernel
//   global_avg_pool = true
//   adaptive_avg_pool2d = 7     or [7, 7]: height and width of the output
//   flatten = true              in the order of torch.nn.Flatten on N x C x H x W, after tokens too
//                               tokens = true, class_token = true, first_token = true
//   position_embedding = true   init; a position for each token
//   position_embedding = 1024   init; the number of positions of the table, for at most as many tokens
//   embedding = channels        rows = "classes" (required), init; the first layer of a network that reads tokens
//   dropout = 0.5               stochastic_depth = 0.1
//   layer_scale = 1e-6          the value before training
//   attention = heads           causal; torch.nn.MultiheadAttention with its two linear layers
//   scaled_dot_product_attention = heads    causal; of query, key and value in the channels of the input
//   add = "x"                   the value x + the output before
//   concat = "x"                the channels of x, then those of the output before; a list ["x", "y"]: x, y, then those
//   gate = "x"                  the value x times the output before, which is 1 x 1
//   block = "basic"             the layers of a block, with its parameters; repeat: so many times, one after another
//   layers = [...]              a group of layers (nn.Sequential)
//
// and may have
//
//   name    as in PyTorch; the names of enclosing blocks and groups come before it, as in "layer1.0.conv1". A layer
//           without a name has its number in its block, where layers with a name do not count. A block that is repeated
//           has its number: with a name, it is a group of that name with the copies 0, 1, ... in it, unless {index}
//           stands in the name. inline = true: a block or group adds no name, and its layers count on in the enclosing
//           one.
//   label   names the output as a value that later layers read, in this block and the blocks in it
//   from    the value that the layer reads, in place of the output before; of a repeated block, the first copy reads
//   it.
//           "input" is the input of the block. A group has no labels and no input of its own.
//
// init and bias_init say how the values of a weight and of a bias begin: a name of nn/init_rule.h such as "zeros" or
// "kaiming_normal_fan_out"; or { normal = 0.02 }, { trunc_normal = 0.02 } (cut at -2 and 2), { uniform = 0.1 } (in
// [-0.1, 0.1]) or { constant = 0 }, where texts may name fan_in and fan_out. Without them a layer begins as PyTorch's,
// and attention always does.
//
// Numbers may be texts with +, -, *, /, %, sqrt(x) and parentheses over integers, decimals, the parameters of the
// block, and
//   classes    of the data                       channels, height, width    of the value that the layer reads
//   index      of the copy of the innermost repeated block, from 0
// A parameter named channels, height or width hides that variable.
// The default of a block's parameter may not name another parameter. A name may contain such a text in braces:
// "encoder_layer_{index}". "/" gives a decimal where it leaves a remainder, and a whole number is an error then.
//
// The last layer gives one value for each class, or one for each class at each token; each output has a reader. Numbers
// are at most 2^31, and names have letters, digits, _ . and - only.
//
// Errors name the file, the line, the layer, and both shapes where two do not fit.
#pragma once

#include "nn/network.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddp {

struct ModelFile {
  std::string name;  // of --model: of a built-in network, or of the file without folder and ending
  std::string text;
  bool built_in = false;
};

inline constexpr size_t kLongestModelName = 200;              // characters of a network's name
inline constexpr int64_t kMostModelBytes = int64_t{1} << 20;  // of a file
inline constexpr int64_t kMostModelLayers = 10'000;           // of a network, with all copies, blocks and groups

// The name that the text gives the network; none: it gives none. Errors are as those of make_model().
std::optional<std::string> network_name_in(const ModelFile& file, const std::string& where);

// Whether the first layer of the file is an embedding: the network reads tokens, not images. Errors are as those of
// make_model().
bool begins_with_embedding(const ModelFile& file, const std::string& where);

// The network for images of this shape. `where` names the file in messages. Throws Error(Exit::model) if the text is no
// network, or if the images do not fit it.
Network make_model(const ModelFile& file, const std::string& where, ImageShape image, int64_t classes);

}  // namespace ddp
