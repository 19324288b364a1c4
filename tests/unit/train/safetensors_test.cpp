#include "train/safetensors.h"

#include "core/error.h"
#include "nn/models.h"
#include "train/state_dict.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

namespace ddp {
namespace {

namespace fs = std::filesystem;

class Safetensors : public ::testing::Test {
 protected:
  Safetensors() {
    std::string name = (fs::temp_directory_path() / "ddp-safetensors-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    path = folder / "weights.safetensors";
  }
  ~Safetensors() override { fs::remove_all(folder); }

  std::string content() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void expect_refused(const std::string& bytes, const std::string& message) const {
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      read_safetensors(path);
      ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::data);
      EXPECT_NE(std::string(e.what()).find(path.string()), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
    }
  }
  static std::string with_header(const std::string& json, const std::string& data) {
    const uint64_t length = json.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + json + data;
  }

  fs::path folder, path;
};

TEST_F(Safetensors, RoundTrip) {
  write_safetensors(path, {{"a", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"empty", {0}, {}}, {"b", {1}, {-0.5f}}});
  const auto read = read_safetensors(path);
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read.at("a").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(read.at("a").values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read.at("b").values, std::vector<float>{-0.5f});
  EXPECT_FALSE(fs::exists(path.string() + ".tmp"));
}

TEST_F(Safetensors, BrokenFilesAreRefused) {
  write_safetensors(path, {{"a", {4}, {1, 2, 3, 4}, {}}});
  const std::string good = content();
  expect_refused(good.substr(0, 4), "shorter");
  expect_refused(good.substr(0, 20), "shorter");
  expect_refused(good.substr(0, good.size() - 4), "truncated");
  expect_refused(with_header("{not json", ""), "parse");
  expect_refused(with_header(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", "1234"), "F16");
  expect_refused(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"), "shape");
  expect_refused(with_header(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[4,0]}})", "1234"), "outside");
}

TEST_F(Safetensors, StateDictMustFitTheModel) {
  const auto parameters = parameters_of(make_model("lenet", {28, 28, 1}, 10));
  std::vector<float> flat(flat_count(parameters));
  for (const Parameter& p : parameters)
    for (int64_t i = p.offset; i < p.offset + p.count; ++i) flat[i] = static_cast<float>(i) / 7;
  save_state_dict(path, parameters, {}, {.weights = flat, .statistics = {}});
  EXPECT_EQ(load_state_dict(path, parameters, {}).weights, flat);
  EXPECT_EQ(read_safetensors(path).at("3.weight").shape, (std::vector<int64_t>{50, 20, 5, 5}));
  EXPECT_EQ(read_safetensors(path).at("7.weight").shape, (std::vector<int64_t>{128, 800}));

  const auto others = parameters_of(make_model("lenet", {32, 32, 1}, 10));
  try {
    load_state_dict(path, others, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::model);
    EXPECT_NE(std::string(e.what()).find("7.weight"), std::string::npos) << e.what();
  }
}

TEST_F(Safetensors, StateOfNormsIsKeptUnderPytorchsNames) {
  const Network network = make_model("keras-convnet", {28, 28, 1}, 10);
  const auto parameters = parameters_of(network);
  const auto norms = norm_states_of(network);
  ModelState state{.weights = std::vector<float>(flat_count(parameters)),
                   .statistics = std::vector<float>(state_count(norms)),
                   .updates = 468};
  for (size_t i = 0; i < state.statistics.size(); ++i) state.statistics[i] = static_cast<float>(i) / 3;
  save_state_dict(path, parameters, norms, state);
  const auto tensors = read_safetensors(path);
  EXPECT_EQ(tensors.at("4.running_var").shape, (std::vector<int64_t>{24}));
  EXPECT_EQ(tensors.at("4.running_var").values[0], state.statistics[2 * 12 + 24]);
  EXPECT_EQ(tensors.at("4.weight").values, std::vector<float>(24, 1));  // these norms have no scale
  EXPECT_EQ(tensors.at("7.num_batches_tracked").integer, 468);
  const ModelState back = load_state_dict(path, parameters, norms);
  EXPECT_EQ(back.statistics, state.statistics);
  EXPECT_EQ(back.updates, 468);
}

TEST_F(Safetensors, AFullDiskIsReported) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  fs::create_symlink("/dev/full", path.string() + ".tmp");
  try {
    write_safetensors(path, {{"a", {1}, {1}, {}}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::output);
    EXPECT_NE(std::string(e.what()).find("No space left"), std::string::npos) << e.what();
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace ddp
