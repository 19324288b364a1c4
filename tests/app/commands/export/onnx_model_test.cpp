#include "app/commands/export/onnx_model.h"

#include "tests/app/commands/export/random_network.h"
#include "tests/expect_error.h"
#include "tests/judge.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using namespace testing;

std::string shape_of(const onnx::ValueInfoProto& value) {
  std::string text = value.name() + fmt::format(" {}", value.type().tensor_type().elem_type());
  for (const auto& dim : value.type().tensor_type().shape().dim())
    text += " " + (dim.has_dim_param() ? dim.dim_param() : std::to_string(dim.dim_value()));
  return text;
}

void expect_logits(const std::vector<float>& expected, const std::string& file, const OnnxValue& input) {
  const OnnxValue result = OnnxInterpreter(file).run(input);
  EXPECT_EQ(result.dims, (std::vector<int64_t>{kImages, kClasses}));
  const Deviation of = deviation(std::vector<float>(result.values.begin(), result.values.end()), expected);
  EXPECT_LE(of.largest_error, 2e-5 * of.largest);
}

void expect_same_logits(const Network& network, int64_t foldable) {
  SCOPED_TRACE(network.name());
  const RandomNetwork random(network);
  const std::vector<float> expected = random.logits();
  EXPECT_NE(expected[0], expected[kClasses]);  // the images differ
  ExportedNetwork exported = random.exported();
  constexpr int64_t kLarge = 1'000'000;  // parameters: tests/system/readers runs these as they are
  if (total_count(random.parameters) < kLarge)
    expect_logits(expected, onnx_model(exported, {}, {}), random.normalized());
  EXPECT_EQ(fold_batch_norms(exported), foldable);
  expect_logits(expected, onnx_model(exported, kPixels, {}), random.bytes());
}

TEST(OnnxModel, ComputesTheLogitsOfNetworksForSmallImages) {
  for (const char* name : {"keras-convnet", "lenet", "mlp", "mobilenet_v3_small", "resnet18", "torchvision-resnet18",
                           "torchvision-resnet50", "vit-tiny"}) {
    const Network network = make_model(name, kImage, kClasses);
    expect_same_logits(network, std::ssize(batch_norm_states_of(network)));
  }
  expect_same_logits(probe(), 3);
}

TEST(OnnxModel, ComputesTheLogitsOfJoinedValues) { expect_same_logits(joins(), 3); }

TEST(OnnxModel, ComputesTheLogitsOfEveryKindOfLayer) {
  expect_same_logits(activated(), 0);
  expect_same_logits(grouped(), 2);
  expect_same_logits(transformer(), 0);
}

TEST(OnnxModel, ComputesTheLogitsOfTokensInSequencesOfAnyLength) {
  const RandomNetwork random(gpt());
  const std::vector<float> all = random.logits();
  const OnnxInterpreter interpreter(onnx_model(random.exported(), {}, {}));
  for (const int64_t length : {kTokens, kTokens - 2}) {
    std::vector<float> expected;  // no token changes those before it
    for (int64_t n = 0; n < kImages; ++n)
      expected.insert(expected.end(), all.begin() + n * kTokens * kVocabulary,
                      all.begin() + (n * kTokens + length) * kVocabulary);
    const OnnxValue result = interpreter.run(random.first_tokens(length));
    EXPECT_EQ(result.dims, (std::vector<int64_t>{kImages, length, kVocabulary}));
    const Deviation of = deviation(std::vector<float>(result.values.begin(), result.values.end()), expected);
    EXPECT_LE(of.largest_error, 2e-5 * of.largest);
  }
  const onnx::GraphProto& graph = interpreter.model().graph();
  EXPECT_EQ(shape_of(graph.input(0)), "input 7 batch sequence");
  EXPECT_EQ(shape_of(graph.output(0)), "logits 1 batch sequence 11");
  int tables = 0;
  for (const auto& tensor : graph.initializer()) tables += tensor.name() == "wte.weight" ? 1 : 0;
  EXPECT_EQ(tables, 1);
}

TEST(OnnxModel, FoldsNoBatchNormIntoAWeightThatIsTransposedOrShared) {
  Network net("shared", {kTokens, 1, 1});
  const int table = net.embedding(4, kVocabulary).here();
  net.linear(4).transposed().batch_norm().tied_linear(table).batch_norm();
  ExportedNetwork exported = RandomNetwork(net).exported();
  EXPECT_EQ(fold_batch_norms(exported), 0);
}

TEST(OnnxModel, NeedsANewerOperatorSetOnlyForALayerNorm) {
  const auto sets = [](const Network& network) {
    const OnnxInterpreter interpreter(onnx_model(RandomNetwork(network).exported(), {}, {}));
    return std::pair(interpreter.model().ir_version(), interpreter.model().opset_import(0).version());
  };
  EXPECT_EQ(sets(joins()), (std::pair<int64_t, int64_t>(7, 13)));
  EXPECT_EQ(sets(activated()), (std::pair<int64_t, int64_t>(7, 13)));
  EXPECT_EQ(sets(transformer()), (std::pair<int64_t, int64_t>(8, 17)));
}

TEST(OnnxModel, HasNamesShapesAndMetadata) {
  const RandomNetwork random(make_model("keras-convnet", kImage, kClasses));
  const std::string file = onnx_model(random.exported(), {}, {{"key", "text"}});
  const OnnxInterpreter interpreter(file);
  const onnx::ModelProto& model = interpreter.model();
  EXPECT_EQ(model.ir_version(), 7);
  ASSERT_EQ(model.opset_import_size(), 1);
  EXPECT_EQ(model.opset_import(0).version(), 13);
  ASSERT_EQ(model.metadata_props_size(), 1);
  EXPECT_EQ(model.metadata_props(0).key() + "=" + model.metadata_props(0).value(), "key=text");

  ASSERT_EQ(model.graph().input_size() + model.graph().output_size(), 2);
  EXPECT_EQ(shape_of(model.graph().input(0)), "input 1 batch 3 16 14");
  EXPECT_EQ(shape_of(model.graph().output(0)), "logits 1 batch 7");
  onnx::ModelProto bytes;
  ASSERT_TRUE(bytes.ParseFromString(onnx_model(random.exported(), kPixels, {})));
  EXPECT_EQ(shape_of(bytes.graph().input(0)), "input 2 batch 16 14 3");

  std::vector<std::string> names, expected;
  for (const auto& tensor : model.graph().initializer()) names.push_back(tensor.name());
  for (const NamedTensor& tensor : random.exported().tensors)
    if (!tensor.integer) expected.push_back(tensor.name);
  EXPECT_EQ(names, expected);
}

TEST(OnnxModel, RefusesWhatAFileCannotHold) {
  require_onnx_holds(INT32_MAX);
  expect_error(Exit::usage, {"2.0 GiB", "--format safetensors"}, [] { require_onnx_holds(int64_t{INT32_MAX} + 1); });
  const RandomNetwork random(Network("features", kImage).flatten().linear(5).conv2d(kClasses, 1));
  expect_error(Exit::model, {"layer 2 (conv2d) needs an image"}, [&] { onnx_model(random.exported(), {}, {}); });
  const RandomNetwork uneven(Network("uneven", kImage).adaptive_avg_pool(3, 7).flatten().linear(kClasses));
  expect_error(Exit::model, {"layer 0 (adaptive average pool)", "from 16x14 to 3x7 positions"},
               [&] { onnx_model(uneven.exported(), {}, {}); });
}

}  // namespace
}  // namespace ddp
