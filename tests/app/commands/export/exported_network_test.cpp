#include "app/commands/export/exported_network.h"

#include "tests/app/commands/export/random_network.h"
#include "tests/expect_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace ddp {
namespace {

using namespace testing;

std::string folded_layers(const ExportedNetwork& exported) {
  std::string names;
  for (size_t i = 0; i < exported.folded.size(); ++i)
    if (exported.folded[i]) names += exported.network.layers()[i].name + " ";
  return names;
}

TEST(ExportedNetwork, FoldsABatchNormWhereThatIsExact) {
  const RandomNetwork random(probe());
  const ExportedNetwork before = random.exported();
  ExportedNetwork after = before;
  EXPECT_EQ(fold_batch_norms(after), 3);
  EXPECT_EQ(folded_layers(after), "2 6.1 13 ");
  const auto of = [](const ExportedNetwork& network, const char* name) {
    return double{network.find(name)->values.at(0)};
  };
  for (const char* const part : {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"})
    EXPECT_EQ(after.find(std::string("13.") + part), nullptr) << part;
  EXPECT_EQ(before.find("1.bias"), nullptr);
  const double epsilon = 1e-5f, factor = of(before, "13.weight") / std::sqrt(of(before, "13.running_var") + epsilon);
  EXPECT_EQ(of(after, "12.weight"), static_cast<float>(of(before, "12.weight") * factor));
  EXPECT_EQ(of(after, "12.bias"), static_cast<float>((of(before, "12.bias") - of(before, "13.running_mean")) * factor +
                                                     of(before, "13.bias")));
}

TEST(ExportedNetwork, KeepsABatchNormThatOverflows) {
  const RandomNetwork random(Network("overflow", kImage).conv2d(4, 1).batch_norm().flatten().linear(kClasses));
  ExportedNetwork exported = random.exported();
  for (NamedTensor& tensor : exported.tensors)
    if (tensor.name == "1.weight")
      tensor.values[2] = 3e38f;
    else if (tensor.name == "1.running_var")
      tensor.values[2] = 1e-9f;
  const std::string unchanged = onnx_model(exported, {}, {});
  EXPECT_EQ(fold_batch_norms(exported), 0);
  EXPECT_TRUE(onnx_model(exported, {}, {}) == unchanged);

  require_finite(exported, "run/model.safetensors");
  exported.tensors.at(1).values.at(0) = NAN;
  expect_error(Exit::numerics, {"run/model.safetensors: the tensor 0.bias has NaN or infinity"},
               [&] { require_finite(exported, "run/model.safetensors"); });
}

}  // namespace
}  // namespace ddp
