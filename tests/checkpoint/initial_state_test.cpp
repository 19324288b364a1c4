// Weights of a network for other classes, or for pictures of other channels, as the start of a run.
#include "checkpoint/initial_state.h"

#include "nn/models.h"
#include "tests/checkpoint/fixture.h"

#include <cmath>
#include <functional>
#include <limits>

namespace ddp {
namespace {

constexpr int64_t kThere = 10, kHere = 4;
constexpr uint64_t kSeed = 3;
const std::string kHeadLeftOut =
    "14.weight [4, 256] and 14.bias [4] begin new; left out of the file: 14.bias [10], 14.weight [10, 256]";

class WeightsWithANewHead : public ::testing::Test {
 protected:
  using Tensors = std::vector<NamedTensor>;
  using Change = std::function<void(Tensors&)>;

  static Network network(int64_t channels, int64_t classes) {
    return make_model("keras-convnet", {28, 28, channels}, classes);
  }
  // The weights of 10 classes and `channels` channels, changed, in a network of 4 classes and `reads` channels.
  ModelState load(const Change& change = {}, int64_t channels = 3, int64_t reads = 3, int64_t classes = kHere,
                  bool new_head = true) {
    Tensors tensors = tensors_of_ones(network(channels, kThere));
    if (change) change(tensors);
    write_safetensors(path, sources_of(tensors));
    const Network here = network(reads, classes);
    parameters = parameters_of(here);
    notes.clear();
    std::optional<NewHead> head;
    if (new_head) head = NewHead{.init = {}, .seed = kSeed};
    return load_initial_state(path, parameters, batch_norm_states_of(here), head,
                              {.network = {here.name(), here.input(), classes},
                               .note = [&](const std::string& line) { notes += line + "\n"; }});
  }
  std::vector<float> values(const ModelState& state, const std::string& name) const {
    return to_pytorch(*std::ranges::find(parameters, name, &Parameter::name), state.weights);
  }
  // Whether the head has the values that a run with this seed begins with, and all other weights are 1.
  void expect_new_head_only(const ModelState& state) const {
    std::vector<float> begun(state.weights.size());
    initialize(begun, parameters, {}, kSeed);
    for (const Parameter& p : parameters) {
      const bool head = p.name.starts_with("14.");
      EXPECT_EQ(to_pytorch(p, state.weights), head ? to_pytorch(p, begun) : std::vector<float>(p.count, 1)) << p.name;
    }
    EXPECT_EQ(state.statistics, std::vector<float>(state.statistics.size(), 1));
    EXPECT_EQ(state.updates, 7);
  }
  static Change rename(const std::string& from, const std::string& to) {
    return [=](Tensors& tensors) {
      for (NamedTensor& t : tensors)
        if (t.name.starts_with(from)) t.name = to + t.name.substr(from.size());
    };
  }

  const TempFolder temp;
  const fs::path path = temp / "w.safetensors";
  std::vector<Parameter> parameters;
  std::string notes;
};

TEST_F(WeightsWithANewHead, KeepEverythingElse) {
  expect_new_head_only(load());
  EXPECT_NE(notes.find(kHeadLeftOut + "\n"), std::string::npos) << notes;
  expect_new_head_only(load(rename("", "module.")));
  EXPECT_NE(notes.find("left out of the file: module.14.bias"), std::string::npos) << notes;
  expect_new_head_only(load(rename("14.", "head.fc.")));
  EXPECT_NE(notes.find("left out of the file: head.fc.bias [10], head.fc.weight [10, 256]"), std::string::npos)
      << notes;
  expect_new_head_only(load([](Tensors& tensors) {
    std::erase_if(tensors, [](const NamedTensor& t) { return t.name.starts_with("14."); });
  }));
  EXPECT_NE(notes.find("begin new; the file has no such layer"), std::string::npos) << notes;
}

TEST_F(WeightsWithANewHead, BeginItNewAlsoWhereItsShapeFits) {
  expect_new_head_only(load({}, 3, 3, kThere));
  EXPECT_NE(notes.find("14.weight [10, 256], whose shape fits, but --new-head begins this layer new"),
            std::string::npos)
      << notes;
  // NaN in what is left out is no fault.
  expect_new_head_only(load([](Tensors& tensors) {
    for (NamedTensor& t : tensors)
      if (t.name == "14.bias") t.values[0] = std::numeric_limits<float>::quiet_NaN();
  }));
}

TEST_F(WeightsWithANewHead, SumTheChannelsForGreyPictures) {
  const auto colours = [](Tensors& tensors) {
    std::vector<float>& values =
        tensors[std::ranges::find(tensors, "0.weight", &NamedTensor::name) - tensors.begin()].values;
    for (size_t i = 0; i < values.size(); ++i)  // channel c of output o: 10^c * (o + 1)
      values[i] = std::pow(10.0f, static_cast<float>(i / 9 % 3)) * static_cast<float>(i / 27 + 1);
  };
  const ModelState grey = load(colours, 3, 1);
  const std::vector<float> conv = values(grey, "0.weight");
  ASSERT_EQ(conv.size(), 12u * 9);
  for (size_t i = 0; i < conv.size(); ++i) EXPECT_EQ(conv[i], 111 * static_cast<float>(i / 9 + 1));
  EXPECT_NE(notes.find("0.weight has 3 input channels and the network 1: the sum over them is loaded"),
            std::string::npos)
      << notes;

  const std::string text = error_of([&] { load({}, 1, 3); }).what();
  EXPECT_TRUE(
      text.ends_with("0.weight reads one channel in the file: read the pictures as grey ones, with "
                     "--channels 1"))
      << text;
}

TEST_F(WeightsWithANewHead, AreRefusedWhereTheRestDoesNotFit) {
  const Error error = error_of([&] { load(rename("3.", "33.")); });
  expect_error(error, Exit::model, "not in the file: 3.weight; only in the file: 33.weight");
  EXPECT_TRUE(std::string(error.what()).ends_with("; --new-head changes the last linear layer only")) << error.what();
}

TEST_F(WeightsWithANewHead, AreAskedForWhereOnlyTheHeadDiffers) {
  const auto strict = [&](const Change& change, int64_t channels, int64_t reads) {
    return std::string(error_of([&] { load(change, channels, reads, kHere, false); }).what());
  };
  std::string text = strict({}, 3, 3);
  EXPECT_NE(text.find("another shape: 14.weight (file [10, 256], model [4, 256])"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("; all but the last layer fits: add --new-head, which begins that layer new")) << text;
  text = strict({}, 3, 1);
  EXPECT_TRUE(text.ends_with("add --new-head, which begins that layer new and sums the channels")) << text;
  text = strict(rename("3.", "33."), 3, 3);
  EXPECT_EQ(text.find("--new-head"), std::string::npos) << text;
}

TEST_F(WeightsWithANewHead, OrWithoutHoldNoNanOrInfinity) {
  for (const bool new_head : {true, false})
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      const auto spoil = [&](Tensors& tensors) {
        for (NamedTensor& t : tensors)
          if (t.name == "7.running_var") t.values[4] = bad;
      };
      expect_error(error_of([&] { load(spoil, 3, 3, kThere, new_head); }), Exit::numerics,
                   fmt::format("the tensor 7.running_var holds {} (number 5 of its 32 values)", bad));
    }
}

}  // namespace
}  // namespace ddp
