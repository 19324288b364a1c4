// What nn/model_file.h refuses: each message names the file, the line, the layer, and what to do.
#include "nn/model_file.h"
#include "tests/expect_error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace ddp {
namespace {

using Parts = std::initializer_list<std::string>;

constexpr ImageShape kSmallImage{8, 8, 3};

void expect_refused(const std::string& text, Parts parts) {
  expect_error(Exit::model, parts, [&] { make_model({.name = "net", .text = text}, "net.toml", kSmallImage, 10); });
}

// The layers stand in line 2 and later, before the head of a network.
void expect_layers_refused(const std::string& layers, Parts parts, const std::string& rest = "") {
  expect_refused("layers = [\n" + layers +
                     ",\n{ global_avg_pool = true }, { flatten = true }, { linear = 'classes', name = 'fc' } ]\n" +
                     rest,
                 parts);
}

// A block with these layers, in line 5, and a layer that has one copy of it, in line 2.
void expect_block_refused(const std::string& layer, const std::string& block, Parts parts) {
  expect_layers_refused(layer, parts, "[blocks.b]\n" + block);
}

TEST(ModelFileErrors, NameTheLineOfBrokenText) {
  expect_refused("layers = [\n  {\n", {"net.toml, line 2: "});
  expect_refused("layers = [ ]\n\xff", {"net.toml, line ", "utf-8"});
  expect_refused("", {"net.toml, line 1: the network needs layers = ["});
  expect_refused("layers = 5", {"the network needs layers = ["});
  expect_refused("layers = [ 5 ]", {"net.toml, line 1: a layer must be a table, such as { conv2d = 64, kernel = 3 }"});
  expect_refused("layer = []",
                 {"line 1: \"layer\" is no key of a network; the keys are: name, layers, defaults, blocks"});
  expect_refused("name = 'a b'", {"line 1: name must be a text of letters"});
  expect_error(Exit::model, {"a\\x0Ab, line 1: "},
               [] { make_model({.name = "net", .text = "layers"}, "a\nb", kSmallImage, 10); });
  expect_refused(std::string(kMostModelBytes + 1, ' '),
                 {"net.toml: has 1048577 bytes; a network file may have 1048576"});
}

TEST(ModelFileErrors, NameUnknownKeysAndKinds) {
  expect_layers_refused("{ conv3d = 5, kernel = 3 }",
                        {"net.toml, line 2: layer 0: has no key that says its kind; its keys are: conv3d, kernel; the "
                         "kinds are: conv2d, linear, ",
                         ", block, layers"});
  expect_layers_refused(
      "{ conv2d = 5, kernal = 3, name = 'c' }",
      {"net.toml, line 2: layer 0 (conv2d): \"kernal\" is no key of this layer; its keys are: conv2d, "
       "kernel, stride, padding, dilation, groups, bias, "});
  expect_layers_refused("{ conv2d = 5, kernel = 1, \"\\u001b[1m\" = 3 }", {"\"\\x1B[1m\" is no key"});
  expect_layers_refused("{ conv2d = 5, linear = 3 }", {"line 2: layer 0: has two kinds, conv2d and linear"});
  expect_layers_refused("{ dropout = 0 }", {"line 4: \"conv\" is no key of [defaults]; the keys are: conv2d"},
                        "[defaults.conv]\nbias = false");
  expect_layers_refused("{ dropout = 0 }",
                        {"line 5: \"name\" is no key of [defaults.conv2d]; the keys are: kernel, stride"},
                        "[defaults.conv2d]\nname = 'c'");
  expect_layers_refused("{ dropout = 0 }", {"line 4: defaults must be a table"}, "defaults = 3");
}

TEST(ModelFileErrors, NameTheWrongValue) {
  expect_layers_refused("{ dropout = 0 },\n{ conv2d = 5, name = 'c' }",
                        {"net.toml, line 3: layer c (conv2d): needs the key \"kernel\""});
  expect_layers_refused("{ conv2d = true, kernel = 3 }",
                        {"conv2d = true must be a number, or a text that computes one"});
  expect_layers_refused("{ conv2d = 0, kernel = 3 }", {"conv2d = 0 must be a whole number from 1 to 2147483648"});
  expect_layers_refused("{ conv2d = 2147483649, kernel = 3 }", {"conv2d = 2147483649 must be a whole number from 1"});
  expect_layers_refused("{ conv2d = 2.5, kernel = 3 }", {"conv2d = 2.5 must be a whole number"});
  expect_layers_refused("{ conv2d = '7 / 2', kernel = 3 }",
                        {"conv2d = \"7 / 2\" must be a whole number", ", but is 3.5"});
  expect_layers_refused("{ conv2d = '1 - 2', kernel = 3 }", {"conv2d = \"1 - 2\" must be", ", but is -1"});
  expect_layers_refused("{ conv2d = 'widht', kernel = 3 }",
                        {"conv2d = \"widht\": widht is no variable here; the variables are: channels, classes, height, "
                         "width"});
  expect_layers_refused("{ conv2d = '1 / 0', kernel = 3 }", {"conv2d = \"1 / 0\": 1 / 0 divides by zero"});
  expect_layers_refused("{ conv2d = 5, kernel = 1, padding = 'full' }", {"padding = \"full\": full is no variable"});
  expect_layers_refused("{ conv2d = 5, kernel = 1, bias = 1 }", {"bias = 1 must be true or false"});
  expect_layers_refused("{ conv2d = 5, kernel = 1, padding = -1 }", {"padding = -1 must be a whole number from 0"});
  expect_layers_refused("{ batch_norm = false }", {"batch_norm = false must be true; for no such layer, leave it out"});
  expect_layers_refused("{ batch_norm = true, epsilon = 0 }", {"epsilon must be greater than 0"});
  expect_layers_refused("{ batch_norm = true, epsilon = nan }", {"epsilon = nan must be finite"});
  expect_layers_refused("{ batch_norm = true, momentum = 2 }", {"momentum must be from 0 to 1"});
  expect_layers_refused("{ layer_scale = 1e39 }", {"layer_scale = 1e+39 must be finite"});
  expect_layers_refused("{ conv2d = 4, kernel = 1, init = { constant = 1e39 } }",
                        {"line 2: layer 0 (conv2d): init: constant = 1e+39 is no number of single precision"});
  expect_layers_refused("{ dropout = 1 }",
                        {"net.toml, line 2: model net: layer 0 (dropout of 1): the rate must be in"});
  expect_layers_refused("{ activation = 'swish' }",
                        {"activation = \"swish\" is no activation; the activations are: relu, relu6, ", ", tanh"});
  expect_layers_refused("{ activation = 'relu', slope = 1 }", {"slope is for activation = \"leaky_relu\" only"});
  expect_layers_refused("{ adaptive_avg_pool2d = [7] }", {"adaptive_avg_pool2d must be a number, or [height, width]"});
  expect_layers_refused("{ concat = [] }", {"concat is an empty array"});
  std::string many = "'input'";
  for (int i = 0; i < 64; ++i) many += ", 'input'";
  expect_layers_refused("{ concat = [" + many + "] }", {"concat has more than 64 values"});
  expect_layers_refused("{ concat = ['input', 1] }", {"concat must be a text or an array of texts, but has 1"});
  expect_layers_refused("{ dropout = 0, name = 'a b' }", {"name = \"a b\" must have 1 to 128 letters, digits"});
  expect_layers_refused("{ dropout = 0, name = '{channels' }", {"lacks a }"});
  expect_layers_refused("{ dropout = 0, name = '{channels / 2}' }",
                        {"{channels / 2} must be a whole number, but is 1.5"});
}

TEST(ModelFileErrors, ShowBothShapes) {
  expect_layers_refused("{ conv2d = 5, kernel = 9, name = 'c' }",
                        {"net.toml, line 2: model net does not fit the data: layer c (conv2d 5@9x9) cannot take an "
                         "input of 8x8x3; the images are 8x8x3"});
  expect_layers_refused("{ avg_pool2d = 8 },\n{ avg_pool2d = 2 }",
                        {"line 3: ", "layer 1 (average pool 2x2) cannot take an input of 1x1x3"});
  expect_layers_refused("{ tokens = true }, { position_embedding = 7 }",
                        {"(position embedding of 7 positions) cannot take 64 tokens; give it as many positions as "
                         "tokens"});
  expect_layers_refused("{ conv2d = 4, kernel = 3 },\n{ add = 'input' }",
                        {"net.toml, line 3: model net: layer 1 (add) cannot add 8x8x3 and 6x6x4"});
  expect_layers_refused("{ conv2d = 4, kernel = 3 },\n{ concat = 'input' }",
                        {"line 3: model net: layer 1 (concat) cannot join 8x8x3 and 6x6x4"});
  expect_layers_refused("{ conv2d = 4, kernel = 3 },\n{ gate = 'input' }",
                        {"line 3: model net: layer 1 (gate) multiplies 8x8x3 by 6x6x4, which must be 1x1x3"});
  expect_layers_refused("{ conv2d = 4, kernel = 1, groups = 2 }",
                        {"line 2: ", "has 2 groups, which must divide its 3"});
  expect_layers_refused("{ attention = 2 }", {"line 2: ", "has 2 heads, which must divide the 3 values of its tokens"});
  expect_refused(
      "layers = [ { flatten = true },\n{ linear = 5 } ]",
      {"net.toml, line 2: layer 1: it is the last one and gives 1x1x5, but the data have 10 classes; end with { "
       "linear = \"classes\" } on one position"});
  expect_refused("layers = [ { conv2d = 'classes', kernel = 1 } ]", {"gives 8x8x10, but the data have 10 classes"});
  expect_refused(
      "layers = [ { flatten = true }, { linear = 'classes', label = 'x' },\n{ linear = 7 }, { block = 'b', repeat = 0, "
      "from = 'x' } ]\n[blocks.b]\nlayers = [ { dropout = 0 } ]",
      {"net.toml, line 2: layer 2: it is the last one, and must give the output"});
}

// Of a network for eight tokens of ten; `rest` stands in line 2 behind the embedding.
void expect_tokens_refused(const std::string& rest, Parts parts, ImageShape input = {8, 1, 1}) {
  const std::string text =
      "layers = [ { embedding = 4, rows = 'classes', label = 'table', name = 'wte' },\n" + rest + "]";
  expect_error(Exit::model, parts, [&] { make_model({.name = "net", .text = text}, "net.toml", input, 10); });
}

TEST(ModelFileErrors, NameWhatDoesNotFitTokens) {
  const std::string head = "{ linear = 'classes', tied = 'table', name = 'head' }";
  expect_tokens_refused(head,
                        {"net.toml, line 1: model net does not fit the data: layer wte (embedding) cannot take an "
                         "input of 8x8x3; the images are 8x8x3"},
                        kSmallImage);
  expect_tokens_refused("{ embedding = 4, rows = 'classes', name = 'again' }, " + head,
                        {"net.toml, line 2: model net: layer again (embedding) reads the tokens of the data; put it "
                         "first"});
  expect_tokens_refused(
      "{ linear = 'classes', tied = 'x' }",
      {"line 2: layer 0 (linear): tied = \"x\" is no label of an earlier layer; the labels here are: input, table"});
  expect_tokens_refused("{ linear = 'classes', tied = 'input' }",
                        {"line 2: model net: layer 0 (linear) is tied to a layer that is no embedding"});
  expect_tokens_refused("{ layer_norm = true, label = 'x' }, { linear = 'classes', tied = 'x' }",
                        {"line 2: model net: layer 1 (linear) is tied to a layer that is no embedding"});
  expect_tokens_refused("{ linear = 5 }, " + head,
                        {"line 2: model net: layer head (linear) reads 5 channels, and the embedding that it is tied "
                         "to has 4"});
  expect_tokens_refused(head + ", { linear = 4 }, { linear = 'classes', tied = 'table' }",
                        {"line 2: model net: layer 1 (linear): another layer is tied to the embedding wte already"});
  expect_tokens_refused("{ linear = 9, tied = 'table' }",
                        {"line 2: layer 0 (linear): linear = 9 must be 10, the rows of the embedding"});
  for (const std::string key : {"bias = false", "init = 'zeros'", "transposed = true"})
    expect_tokens_refused("{ linear = 'classes', tied = 'table', " + key + " }",
                          {key.substr(0, key.find(' ')) + " is for a layer with its own weight"});
  expect_tokens_refused("{ position_embedding = 7, name = 'wpe' }, " + head,
                        {"line 2: model net: layer wpe (position embedding of 7 positions) cannot take 8 tokens; use "
                         "a shorter --sequence-length"});
  expect_tokens_refused("{ position_embedding = 0 }, " + head,
                        {"position_embedding = 0 must be a whole number from 1"});
  expect_tokens_refused("{ position_embedding = false }, " + head,
                        {"position_embedding = false must be true; for no such layer, leave it out"});
  expect_tokens_refused("{ scaled_dot_product_attention = 2 }, " + head,
                        {"line 2: model net: layer 0 (attention) has 2 heads; its input is 8x1x4, and must be Tx1x3C, "
                         "with heads that divide C"});
  expect_tokens_refused("{ linear = 9 }, { scaled_dot_product_attention = 2 }", {"has 2 heads; its input is 8x1x9"});
  expect_tokens_refused("{ linear = 3, from = 'input', name = 'x' }, { concat = 'table' }, { linear = 'classes' }",
                        {"line 2: layer x: reads the tokens of the data, which only the embedding can"});
  expect_tokens_refused("{ flatten = true }, { linear = 'classes' }",
                        {"it is the last one and gives 1x1x10, but the data have 10 classes; end with { linear = "
                         "\"classes\" } on each token"});
  expect_tokens_refused("{ linear = 100000 }, { position_embedding = 2147483648 }, { linear = 'classes' }",
                        {"layer 1 (position_embedding)", "the network has more than 1099511627776 parameters"});
  const auto expect_table_refused = [](const char* table, const char* message) {
    const std::string text = fmt::format("layers = [ {{ {} }}, {{ linear = 'classes' }} ]", table);
    expect_error(Exit::model, {message}, [&] { make_model({.name = "net", .text = text}, "net.toml", {8, 1, 1}, 10); });
  };
  expect_table_refused("embedding = 4", "layer 0 (embedding): needs the key \"rows\"");
  expect_table_refused("embedding = 4, rows = 11",
                       "layer 0: its table has 11 rows, but the vocabulary has 10 tokens; write rows = \"classes\"");
  expect_table_refused("embedding = 2147483648, rows = 2147483648",
                       "the network has more than 1099511627776 parameters");
}

TEST(ModelFileErrors, NameCyclesAndMissingValues) {
  expect_layers_refused(
      "{ dropout = 0, from = 'x' },\n{ dropout = 0, label = 'x' }",
      {"net.toml, line 2: layer 0 (dropout): from = \"x\" reads a later layer, in line 3, so the graph "
       "has a cycle; read the label of an earlier layer"});
  expect_layers_refused(
      "{ add = 'x', label = 'x' }",
      {"line 2: layer 0 (add): add = \"x\" reads the layer itself, in line 2, so the graph has a cycle"});
  for (const std::string reads : {"concat", "gate", "add", "from"})
    expect_layers_refused("{ dropout = 0, label = 'y' }, { label = 'z', " +
                              std::string(reads == "from" ? "dropout = 0, " : "") + reads +
                              " = 'x' },\n{ layers = [ { dropout = 0, label = 'x' } ] }",
                          {"line 2: ", reads + " = \"x\" reads a later layer, in line 3, so the graph has a cycle"});
  expect_layers_refused("{ dropout = 0, label = 'y' }, { add = 'x' }",
                        {"line 2: layer 1 (add): add = \"x\" is no label of an earlier layer; the labels here are: "
                         "input, y"});
  expect_layers_refused("{ dropout = 0, label = 'y' }, { dropout = 0, label = 'y' }",
                        {"layer 1 (dropout): label = \"y\" is the label of an earlier layer too"});
  expect_layers_refused("{ dropout = 0, label = 'input' }", {"label = \"input\" has a meaning already"});
  expect_layers_refused("{ dropout = 0, label = 'x' }, { dropout = 0, name = 'd' },\n{ dropout = 0, from = 'x' }",
                        {"net.toml, line 2: layer d: no layer reads its output; remove it, or give it a label"});
  expect_block_refused("{ block = 'b' }", "layers = [ { block = 'c' } ]\n[blocks.c]\nlayers = [ { block = 'b' } ]",
                       {"net.toml, line 7: layer 0.0.0 (block): the block b contains itself: b > c > b"});
  expect_layers_refused("{ block = 'x' }",
                        {"line 2: layer 0 (block): block = \"x\" is not in this file; its blocks are: "
                         "none"});
}

TEST(ModelFileErrors, NameTheParametersOfABlock) {
  const std::string layers = "layers = [ { conv2d = 'width', kernel = 1 } ]\n";
  expect_block_refused("{ block = 'b' }", layers + "parameters = { width = 'required' }",
                       {"line 2: layer 0 (block): block b needs the parameter \"width\""});
  expect_block_refused(
      "{ block = 'b', widht = 4 }", layers + "parameters = { width = 4 }",
      {"\"widht\" is no key of this layer; its keys are: block, repeat, inline, name, label, from, width"});
  expect_block_refused("{ block = 'b', act = 3 }", "parameters = { act = 'relu' }\nlayers = [ { activation = 'act' } ]",
                       {"act = 3 must be a text"});
  expect_block_refused("{ block = 'b' }", layers + "parameters = { width = 'x' }",
                       {"line 6: block b: width = \"x\": x is no variable here"});
  expect_block_refused("{ block = 'b' }", layers + "parameters = { repeat = 1 }",
                       {"line 6: block b: \"repeat\" has another meaning already"});
  expect_block_refused("{ block = 'b' }", layers + "parameters = { 'a b' = 1 }",
                       {"block b: the parameter \"a b\" must have letters, digits and _"});
  expect_block_refused("{ block = 'b' }", "parameters = { }", {"line 4: block b needs layers = [ ... ]"});
  expect_block_refused("{ block = 'b' }", layers + "layer = 1", {"line 6: \"layer\" is no key of block b"});
  expect_block_refused("{ block = 'b', inline = true, name = 'x' }", "layers = [ { dropout = 0 } ]",
                       {"inline = true takes no name"});
  expect_block_refused("{ layers = [] }", "layers = [ { dropout = 0 } ]", {"line 2: a group needs layers = [ ... ]"});
}

TEST(ModelFileErrors, NameWhatHasTheSameName) {
  expect_layers_refused("{ dropout = 0, name = 'x' },\n{ dropout = 0, name = 'x' }",
                        {"net.toml, line 3: two layers have the name x; the first one is in line 2"});
  expect_layers_refused("{ dropout = 0, name = '1' }, { dropout = 0 }, { dropout = 0 }",
                        {"two layers have the name 1"});
  expect_layers_refused("{ layers = [ { dropout = 0, name = 'x' } ], name = 'a' }, { dropout = 0, name = 'a.x' }",
                        {"two layers have the name a.x"});
  expect_layers_refused("{ tokens = true }, { linear = 3, name = 'x' },\n{ class_token = true, name = 'x.weight' }",
                        {"another layer has a tensor of the name x.weight too"});
  expect_layers_refused(
      "{ batch_norm = true, name = 'x' }, { tokens = true },"
      "{ class_token = true, name = 'x.running_mean' }",
      {"another layer has a tensor of the name x.running_mean too"});
}

TEST(ModelFileErrors, BoundTheNumberOfLayers) {
  const std::string one = "layers = [ { dropout = 0 } ]\n";
  expect_block_refused("{ block = 'b', repeat = 1000000000 }", one,
                       {"net.toml, line 2: the network has more than 10000 layers with all copies, the limit"});
  // Of all copies, before the first one is complete.
  expect_block_refused(
      "{ block = 'b', repeat = 1000 }",
      "layers = [ { block = 'c', repeat = 1000 } ]\n[blocks.c]\nlayers = [ { block = 'd', repeat = 1000 "
      "} ]\n[blocks.d]\n" +
          one,
      {"line 5: the network has more than 10000 layers"});
  expect_block_refused("{ block = 'b', repeat = 6000 }", "layers = [ { dropout = 0 }, { dropout = 0 } ]",
                       {"the network has more than 10000 layers"});
  expect_block_refused("{ block = 'b', repeat = -1 }", one, {"repeat = -1 must be a whole number from 0"});
  std::string chain;
  for (int i = 0; i < 70; ++i) chain += fmt::format("[blocks.b{}]\nlayers = [ {{ block = 'b{}' }} ]\n", i, i + 1);
  expect_layers_refused("{ block = 'b0' }", {"more than 64 blocks and groups in one another"}, chain);
  std::string groups;
  for (int i = 0; i < 1000; ++i) groups += "{ layers = [ ";
  expect_refused("layers = [ " + groups, {"net.toml, line 1: "});
  std::string dots = "a";
  for (int i = 0; i < 100000; ++i) dots += ".a";
  expect_refused("\n" + dots + " = 1", {"net.toml, line 2: has more than 256 dots"});
}

TEST(ModelFileErrors, BoundTheSizes) {
  const std::string most = "2147483648";
  expect_layers_refused("{ conv2d = " + most + ", kernel = 1, padding = " + most + " }",
                        {"line 2: layer 0 (conv2d) gives 4294967304x4294967304x2147483648, and with it the network has "
                         "more than 1099511627776 values for one image"});
  expect_layers_refused("{ conv2d = 1, kernel = " + most + ", padding = " + most + " }", {"layer 0 (conv2d) gives"});
  expect_layers_refused("{ global_avg_pool = true }, { conv2d = 1, kernel = " + most + ", dilation = " + most +
                            ", padding = " + most + " }",
                        {"does not fit the data", "cannot take an input of 1x1x3"});
  expect_layers_refused(
      "{ flatten = true }, { linear = " + most + " }, { linear = " + most + " }",
      {"layer 2 (linear), which gives 1x1x2147483648 from 1x1x2147483648: with it, the network has more "
       "than 1099511627776 parameters"});
  expect_layers_refused("{ adaptive_avg_pool2d = " + most + " }", {"layer 0 (pool2d) gives"});
  expect_block_refused("{ adaptive_avg_pool2d = 200000 }, { block = 'b', repeat = 10 }", "layers = [ { dropout = 0 } ]",
                       {"layer 9.0 (dropout) gives 200000x200000x3, and with it"});
  expect_error(Exit::model, {"the images have more than"}, [&] {
    make_model({.name = "net", .text = "layers = [ { flatten = true } ]"}, "net.toml", {int64_t{1} << 62, 4, 4}, 10);
  });
  std::string name = "x";
  for (int i = 0; i < 100; ++i) name += "x";
  const std::string group = "{ name = '" + name + "', layers = [ ";
  expect_layers_refused(group + group + group + " { dropout = 0 } ] } ] } ] }",
                        {"its name has more than 256 characters"});
}

}  // namespace
}  // namespace ddp
