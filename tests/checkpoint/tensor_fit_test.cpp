// Weights that others have saved: their prefixes, what they lack, and what is said where they do not fit.
#include "checkpoint/tensor_fit.h"

#include "checkpoint/find_weights.h"
#include "checkpoint/state_dict.h"
#include "nn/models.h"
#include "tests/checkpoint/fixture.h"

#include <functional>

namespace ddp {
namespace {

class WeightsOfOthers : public ::testing::Test {
 protected:
  WeightsOfOthers() : network("keras-convnet") {}

  // The tensors of the network, changed by `change`, written to a file and loaded again.
  using Tensors = std::vector<NamedTensor>;
  ModelState load(const std::function<void(Tensors&)>& change, const char* into = nullptr) {
    Tensors tensors = tensors_of(network);
    change(tensors);
    write_safetensors(path, sources_of(tensors));
    const std::string name = into ? into : network;
    const Network model = make_model(name, kImage, 10);
    return load_state_dict(path, parameters_of(model), batch_norm_states_of(model),
                           {.network = {name, kImage, 10}, .note = [&](const std::string& line) { note = line; }});
  }
  static Tensors tensors_of(const std::string& name) { return tensors_of_ones(make_model(name, kImage, 10)); }
  static void prepend(Tensors& tensors, const std::string& prefix) {
    for (NamedTensor& tensor : tensors) tensor.name = prefix + tensor.name;
  }

  static constexpr ImageShape kImage{28, 28, 1};
  const std::string network;
  const TempFolder temp;
  const fs::path path = temp / "w.safetensors";
  std::string note;
};

TEST_F(WeightsOfOthers, LoseThePrefixThatAllNamesShare) {
  const ModelState plain = load([](Tensors&) {});
  EXPECT_EQ(note, "");
  for (const char* prefix : {"module.", "_orig_mod.", "model.", "backbone.", "module._orig_mod.model."}) {
    EXPECT_EQ(load([&](Tensors& tensors) { prepend(tensors, prefix); }).weights, plain.weights) << prefix;
    EXPECT_NE(note.find(fmt::format("begin with \"{}\", which is removed", prefix)), std::string::npos) << note;
  }
  const auto partly = [](Tensors& tensors) { tensors[0].name = "module." + tensors[0].name; };
  expect_error(error_of([&] { load(partly); }), Exit::model, "only in the file: module.");
}

TEST_F(WeightsOfOthers, MayHaveNoCountOfBatches) {
  const auto without = [](Tensors& tensors) {
    std::erase_if(tensors, [](const NamedTensor& t) { return t.name.ends_with("num_batches_tracked"); });
  };
  EXPECT_EQ(load([](Tensors&) {}).updates, 7);
  EXPECT_EQ(load(without).updates, 0);
  EXPECT_EQ(load(without).statistics, load([](Tensors&) {}).statistics);
}

TEST_F(WeightsOfOthers, ThatDoNotFitAreCountedAndNamed) {
  const auto wrong = [](Tensors& tensors) {
    std::erase_if(tensors, [](const NamedTensor& t) { return t.name.starts_with("0."); });
    for (NamedTensor& tensor : tensors)
      if (tensor.name.ends_with("running_var")) tensor.shape.push_back(1);
    tensors.push_back({"fc.weight", {1}, {1}});
  };
  const int64_t all = std::ssize(tensors_of(network));
  std::string text = error_of([&] { load(wrong); }).what();
  EXPECT_NE(text.find("w.safetensors does not fit keras-convnet: "), std::string::npos) << text;
  EXPECT_NE(text.find(fmt::format("of its {} tensors fit; another shape: ", all)), std::string::npos) << text;
  EXPECT_NE(text.find(".running_var (file [12, 1], model [12])"), std::string::npos) << text;
  EXPECT_NE(text.find("; not in the file: 0.weight"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("; only in the file: fc.weight")) << text;

  text = error_of([&] { load([](Tensors&) {}, "resnet18"); }).what();
  EXPECT_NE(text.find(" and "), std::string::npos) << text;
  EXPECT_NE(text.find(" more"), std::string::npos) << text;
  EXPECT_LT(text.size(), 1000u) << text;
  const std::string better =
      fmt::format("; keras-convnet fits better: {0} of its {0} tensors, so use --model keras-convnet", all);
  EXPECT_TRUE(text.ends_with(better)) << text;
}

TEST_F(WeightsOfOthers, OfATrainingForOtherClassesFitTheRestOfTheNetwork) {
  const Network other = make_model(network, kImage, 1000);
  const std::string text = error_of([&] {
                             save_state_dict(path, parameters_of(other), batch_norm_states_of(other),
                                             {.weights = std::vector<float>(flat_count(parameters_of(other))),
                                              .statistics = initial_state(batch_norm_states_of(other))});
                             const Network model = make_model(network, kImage, 10);
                             load_state_dict(path, parameters_of(model), batch_norm_states_of(model));
                           }).what();
  EXPECT_NE(text.find("(file [1000, "), std::string::npos) << text;
  EXPECT_EQ(text.find("not in the file"), std::string::npos) << text;
  EXPECT_EQ(text.find("fits better"), std::string::npos) << text;
}

// A network whose head is tied to its embedding and whose attention is causal, as GPT-2.
class WeightsOfATiedNetwork : public ::testing::Test {
 protected:
  static constexpr const char* kText = R"(
    layers = [
      { name = "transformer", layers = [
        { embedding = 4, rows = "classes", label = "table", name = "wte" },
        { name = "attn", layers = [
          { linear = 12, transposed = true, name = "c_attn" },
          { scaled_dot_product_attention = 2, causal = true, name = "sdpa" },
        ] },
      ] },
      { linear = "classes", tied = "table", name = "lm_head" },
    ])";
  static Network tied_network() { return make_model({.name = "tied", .text = kText}, "tied.toml", {3, 1, 1}, 5); }

  using File = std::map<std::string, NamedTensor>;
  WeightsOfATiedNetwork() {
    for (NamedTensor& tensor : tensors_of_ones(network)) {
      for (size_t i = 0; i < tensor.values.size(); ++i) tensor.values[i] = static_cast<float>(i) - 3;
      const std::string name = tensor.name;
      file[name] = std::move(tensor);
    }
  }
  static File with_prefixes(const File& from, const std::string& old, const std::string& prefix) {
    File changed;
    for (const auto& [name, tensor] : from)
      changed[prefix + name.substr(name.starts_with(old) ? old.size() : 0)] = tensor;
    return changed;
  }
  ModelState load(const File& tensors) {
    std::vector<NamedTensor> list;
    for (const auto& [name, tensor] : tensors) {
      list.push_back(tensor);
      list.back().name = name;
    }
    write_safetensors(path, sources_of(list));
    note.clear();
    return load_state_dict(
        path, parameters_of(network), {},
        {.derived = derived_tensors(network), .note = [&](const std::string& line) { note = line; }});
  }
  std::string refusal(const File& tensors) {
    const Error error = error_of([&] { load(tensors); });
    EXPECT_EQ(error.code(), Exit::model);
    return error.what();
  }
  static NamedTensor mask(int64_t n) {
    NamedTensor tensor{.name = "", .shape = {1, 1, n, n}};
    for (int64_t i = 0; i < n * n; ++i) tensor.values.push_back(i % n <= i / n ? 1.0f : 0.0f);
    return tensor;
  }

  const Network network = tied_network();
  const TempFolder temp;
  const fs::path path = temp / "w.safetensors";
  File file;
  std::string note;
};

TEST_F(WeightsOfATiedNetwork, MayHaveItsHeadAndMasksAndLackItsPrefix) {
  const ModelState plain = load(file);
  EXPECT_EQ(note, "");
  const File tensors = file;
  file["lm_head.weight"] = file.at("transformer.wte.weight");
  EXPECT_EQ(load(file).weights, plain.weights);
  EXPECT_EQ(load(with_prefixes(file, "", "module.")).weights, plain.weights);

  File bare = with_prefixes(tensors, "transformer.", "");
  bare["attn.bias"] = mask(6);
  bare["attn.masked_bias"] = {.name = "", .shape = {}, .values = {-1e4f}};
  EXPECT_EQ(load(bare).weights, plain.weights);
  EXPECT_NE(note.find("the names of all 5 tensors lack \"transformer.\", which is added"), std::string::npos) << note;
}

TEST_F(WeightsOfATiedNetwork, AreRefusedWithAnotherHeadOrMask) {
  file["lm_head.weight"] = file.at("transformer.wte.weight");
  file["lm_head.weight"].values.back() += 1;
  EXPECT_TRUE(
      refusal(file).ends_with("the model: 3 of its 3 tensors fit; other values: lm_head.weight (not the values of "
                              "transformer.wte.weight, and the network has one tensor for both)"))
      << refusal(file);
  file.erase("lm_head.weight");

  const std::string bias = "transformer.attn.bias",
                    no_mask = "; other values: transformer.attn.bias (not a causal mask)";
  file[bias] = mask(3);
  file[bias].values[1] = 1;
  EXPECT_TRUE(refusal(file).ends_with(no_mask));
  file[bias] = mask(4);
  file[bias].shape = {1, 2, 2, 4};
  EXPECT_TRUE(refusal(file).ends_with(no_mask));
  file.erase(bias);
  file["transformer.attn.masked_bias"] = {.name = "", .shape = {}, .values = {0}};
  EXPECT_TRUE(refusal(file).ends_with("(not the value of a mask, -10000)"));
  file.erase("transformer.attn.masked_bias");

  file["transformer.other.bias"] = mask(3);
  EXPECT_TRUE(refusal(file).ends_with("; only in the file: transformer.other.bias"));
  file.erase("transformer.other.bias");
  file.erase("transformer.attn.c_attn.bias");
  EXPECT_TRUE(refusal(file).ends_with("; not in the file: transformer.attn.c_attn.bias"));
}

TEST_F(WeightsOfATiedNetwork, HaveNoMaskInPlaceOfAWeight) {
  const auto needed = state_dict_of(parameters_of(network), {});
  EXPECT_TRUE(fit_of(file, needed).fits());
  file.at("transformer.wte.weight").is_mask = true;
  const TensorFit fit = fit_of(file, needed);
  EXPECT_FALSE(fit.fits());
  EXPECT_EQ(
      fit.text(),
      "2 of its 3 tensors fit; another shape: transformer.wte.weight (numbers of U8 or BOOL, which only a mask may "
      "have)");
}

class WeightsOfAFolder : public CheckpointFolder {};

TEST_F(WeightsOfAFolder, AreThoseOfTheRunOrItsNewestCheckpoint) {
  const Log log(0);
  expect_error(error_of([&] { find_weights(run, log); }), Exit::data, "has neither model.safetensors nor a checkpoint");
  write(3);
  const fs::path newest = write(5) / "model.safetensors";
  for (const fs::path& given : {run, folder, folder / "latest"})
    EXPECT_TRUE(fs::equivalent(find_weights(given, log), newest)) << given;
  put(run / "model.safetensors", "");
  EXPECT_EQ(find_weights(run, log), run / "model.safetensors");
  EXPECT_EQ(find_weights(run / "other.safetensors", log), run / "other.safetensors");

  expect_error(error_of([&] { find_weights(run, log, true); }), Exit::data,
               "has no model_ema.safetensors: its run had no --model-ema; leave out --ema");
  expect_error(error_of([&] { find_weights(run / "other.safetensors", log, true); }), Exit::data,
               "--ema needs a run's folder or a checkpoint");
  put(newest.parent_path() / "model_ema.safetensors", "");
  EXPECT_TRUE(fs::equivalent(find_weights(folder, log, true), newest.parent_path() / "model_ema.safetensors"));
  put(run / "model_ema.safetensors", "");
  EXPECT_EQ(find_weights(run, log, true), run / "model_ema.safetensors");
}

}  // namespace
}  // namespace ddp
