#include "checkpoint/safetensors.h"

#include "checkpoint/state_dict.h"
#include "nn/models.h"
#include "tests/checkpoint/fixture.h"

#include <malloc.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <limits>
#include <new>

namespace ddp {
namespace {

class Safetensors : public ::testing::Test {
 protected:
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

  const TempFolder temp;
  const fs::path folder = temp.path(), path = folder / "weights.safetensors";
};

TEST_F(Safetensors, RoundTrip) {
  write_safetensors(path, sources_of({{"a", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"empty", {0}, {}}, {"b", {1}, {-0.5f}}}));
  const auto read = read_safetensors(path);
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read.at("a").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(read.at("a").values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read.at("b").values, std::vector<float>{-0.5f});
  EXPECT_FALSE(fs::exists(path.string() + ".tmp"));
}

// The values of a tensor are freed before those of the next are made. (The address sanitizer counts no memory here.)
TEST_F(Safetensors, AWriterHoldsOneTensorAtATime) {
  const auto in_use = [] {
    const auto memory = mallinfo2();
    return static_cast<int64_t>(memory.uordblks + memory.hblkhd);
  };
  constexpr int64_t kCount = 1 << 20;
  std::vector<int64_t> held;
  std::vector<TensorSource> sources;
  for (const char* name : {"a", "b", "c"})
    sources.push_back({name, {kCount}, [&] {
                         held.push_back(in_use());
                         return std::vector<float>(kCount, static_cast<float>(held.size()));
                       }});
  const int64_t before = in_use();
  write_safetensors(path, sources);
  ASSERT_EQ(held.size(), 3u);
  for (const int64_t bytes : held) EXPECT_LT(bytes - before, kCount);  // a tensor has four times as many
  EXPECT_EQ(read_safetensors(path).at("c").values, std::vector<float>(kCount, 3.0f));
}

TEST_F(Safetensors, ValuesThatCannotBeMadeLeaveNoFile) {
  auto sources = sources_of({{"a", {4}, {1, 2, 3, 4}}, {"b", {4}, {}}});
  sources[1].values = []() -> std::vector<float> { throw std::bad_alloc(); };
  EXPECT_THROW(write_safetensors(path, sources), std::bad_alloc);
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(Safetensors, MetadataIsKept) {
  const Metadata metadata{{"classes", "caf\u00e9, \"tea\"\n"}, {"empty", ""}};
  write_safetensors(path, sources_of({{"a", {1}, {1}}}), metadata);
  Metadata expected = metadata;
  expected["format"] = "pt";
  EXPECT_EQ(read_safetensors_metadata(path), expected);
  EXPECT_EQ(read_safetensors(path).size(), 1u);
  write_safetensors(path, {});
  EXPECT_EQ(read_safetensors_metadata(path), (Metadata{{"format", "pt"}}));
  std::ofstream(path, std::ios::binary) << with_header("{}", "");
  EXPECT_EQ(read_safetensors_metadata(path), Metadata());
}

TEST_F(Safetensors, InvalidMetadataIsRefused) {
  expect_refused(with_header(R"({"__metadata__":[]})", ""), "__metadata__ is not a list of names and texts");
  expect_refused(with_header(R"({"__metadata__":{"a":"b","c":1}})", ""), R"("c" of its __metadata__ is not a text)");
  expect_refused(with_header(R"({"__metadata__":{"a":{"b":"c"}}})", ""), R"("a" of its __metadata__)");
  expect_refused(with_header(R"({"__metadata__":{"a":"b","a":"c"}})", ""), R"("a" twice)");
  std::ofstream(path, std::ios::binary) << with_header("{}", "12345678");
  EXPECT_THROW(read_safetensors_metadata(path), Error);
}

TEST_F(Safetensors, ALongHeaderIsRefused) {
  const uint64_t length = 100'000'001;
  std::ofstream(path, std::ios::binary) << std::string(reinterpret_cast<const char*>(&length), 8);
  fs::resize_file(path, 8 + length);
  try {
    read_safetensors(path);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("has more than 100000000 bytes"), std::string::npos) << e.what();
  }
}

// A reader whose time grows with the square of the header takes a hundred seconds here.
TEST_F(Safetensors, ALargeHeaderTakesLinearTime) {
#ifdef __SANITIZE_ADDRESS__  // it takes ten times as long
  constexpr int kTensors = 10'000;
#else
  constexpr int kTensors = 100'000;
#endif
  std::string header = "{";
  for (int i = 0; i < kTensors; ++i)
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", i == 0 ? "" : ",", i);
  std::ofstream(path, std::ios::binary) << with_header(header + "}", "");
  const std::clock_t begin = std::clock();
  EXPECT_EQ(read_safetensors(path).size(), static_cast<size_t>(kTensors));
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 30) << "s of processor time";

  std::string zeros = R"({"a":{"shape":[0)";
  for (int i = 0; i < 2'000'001; ++i) zeros += ",0";
  expect_refused(with_header(zeros + "]}}", ""), "more than 2000000 values");
}

TEST_F(Safetensors, BrokenFilesAreRefused) {
  write_safetensors(path, sources_of({{"a", {4}, {1, 2, 3, 4}, {}}}));
  const std::string good = content();
  expect_refused("", "it is empty");
  expect_refused("PK\x03\x04 of another program", "it is a zip archive");
  expect_refused(good.substr(0, 4), "shorter");
  expect_refused(good.substr(0, 20), "shorter");
  expect_refused(good.substr(0, good.size() - 4), "truncated");
  expect_refused(good + "1234", "has data after its last tensor");
  for (const int exponent : {20, 60, 63}) {
    const uint64_t length = uint64_t{1} << exponent;
    expect_refused(std::string(reinterpret_cast<const char*>(&length), 8) + "{}", "shorter");
  }
  expect_refused(std::string(8, '\xff') + "{}", "shorter");
}

TEST_F(Safetensors, BrokenHeadersAreRefused) {
  const auto expect_header_refused = [&](const std::string& json, const std::string& message) {
    expect_refused(with_header(json, ""), message);
  };
  expect_header_refused("", "not JSON");
  expect_header_refused("{not json", "not JSON, from byte 3 on");
  expect_header_refused("[]", "not a JSON object");
  expect_header_refused("{\"\xff\":1}", "not JSON");  // invalid UTF-8
  expect_header_refused(std::string(1'000'000, '['), "nested too deeply");
  expect_header_refused(R"({"a":1e999})", "number");
  expect_header_refused(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":1})", R"("a" twice)");
  expect_header_refused(R"({"a":{"dtype":"F32","dtype":"F64","shape":[0],"data_offsets":[0,0]}})", R"("dtype" twice)");
  expect_header_refused(R"({"a":[]})", R"("a" has no dtype)");
  expect_header_refused(R"({"a":{"dtype":1,"shape":[],"data_offsets":[0,4]}})", R"("a" has no dtype)");
  expect_header_refused(R"({"a":{"dtype":"F32","shape":[0]}})", R"("a" has no list data_offsets)");
  expect_header_refused(R"({"a":{"dtype":"F32","shape":0,"data_offsets":[0,0]}})", R"("a" has no list shape)");
  expect_header_refused(R"({"\u001b[31m":1})", R"("\x1B[31m")");  // terminal escape codes stay escaped
  const std::string long_name(1'000'000, 'a');
  expect_header_refused("{\"" + long_name + "\":1}", R"(aaa..." has no dtype)");
}

TEST_F(Safetensors, InvalidTensorsAreRefused) {
  const auto expect_tensors_refused = [&](const std::string& json, const std::string& message) {
    expect_refused(with_header(json, "12345678"), message);
  };
  const auto tensor = [](const std::string& shape, const std::string& range) {
    return R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + range + "}}";
  };
  expect_tensors_refused(tensor("[3]", "[0,8]"), R"("a" has a size that does not match its shape)");
  expect_tensors_refused(tensor("[1]", "[8,4]"), "outside");
  expect_tensors_refused(tensor("[1]", "[8,12]"), "outside");
  expect_tensors_refused(tensor("[1]", "[18446744073709551612,18446744073709551616]"), "whole numbers");
  expect_tensors_refused(tensor("[1]", "[0,4,8]"), "outside");
  for (const char* dimension : {"-1", "2.0", "1e30", "true", "null", "\"2\"", "9223372036854775808"})
    expect_tensors_refused(tensor(std::string("[") + dimension + "]", "[0,8]"), "shape must hold whole numbers");
  expect_tensors_refused(tensor("[4611686018427387904,4]", "[0,0]"), "an invalid shape");
  expect_tensors_refused(tensor("[4611686018427387904,4611686018427387904,0]", "[0,0]"), "an invalid shape");
  expect_tensors_refused(tensor("[1]", "[0,4]"), "has data after its last tensor");
  expect_tensors_refused(tensor("[1]", "[4,8]"), R"(gap before tensor "a")");
  expect_tensors_refused(R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                         R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                         R"("a" overlaps)");
}

TEST_F(Safetensors, OtherFloatTypesAreRead) {
  const auto read_one = [&](const std::string& dtype, auto stored) {
    std::string data(reinterpret_cast<const char*>(stored.data()), stored.size() * sizeof stored[0]);
    std::ofstream(path, std::ios::binary)
        << with_header(fmt::format(R"({{"a":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})", dtype,
                                   stored.size(), data.size()),
                       data);
    const NamedTensor tensor = read_safetensors(path).at("a");
    EXPECT_EQ(tensor.is_mask, dtype == "U8" || dtype == "BOOL");
    return tensor.values;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const auto half = read_one(
      "F16", std::vector<uint16_t>{0x3c00, 0xc100, 0x7bff, 0x0400, 0x03ff, 0x0001, 0x8000, 0x7c00, 0xfc00, 0x7e00});
  EXPECT_EQ(std::vector(half.begin(), half.end() - 1),
            (std::vector<float>{1, -2.5f, 65504, 0x1p-14f, 1023 * 0x1p-24f, 0x1p-24f, -0.0f, infinity, -infinity}));
  EXPECT_TRUE(std::signbit(half[6]));
  EXPECT_TRUE(std::isnan(half[9]));
  EXPECT_EQ(read_one("BF16", std::vector<uint16_t>{0x3f80, 0xc020}), (std::vector<float>{1, -2.5f}));
  EXPECT_EQ(read_one("F64", std::vector<double>{0.1, -1e30}), (std::vector<float>{0.1f, -1e30f}));
  EXPECT_EQ(read_one("U8", std::vector<uint8_t>{0, 255}), (std::vector<float>{0, 255}));
  EXPECT_EQ(read_one("BOOL", std::vector<uint8_t>{0, 1}), (std::vector<float>{0, 1}));
  EXPECT_EQ(read_one("F64", std::vector<double>{-HUGE_VAL}), std::vector<float>{-infinity});
  const auto expect_tensor_refused = [&](const std::string& entry, const std::string& data,
                                         const std::string& message) {
    expect_refused(with_header(R"({"a":{)" + entry + "}}", data), message);
  };
  const double large = 1e300;
  expect_tensor_refused(R"("dtype":"F64","shape":[],"data_offsets":[0,8])",
                        {reinterpret_cast<const char*>(&large), sizeof large}, "too large for F32");
  expect_tensor_refused(R"("dtype":"I32","shape":[2],"data_offsets":[0,8])", "12345678", R"("a" has dtype "I32")");
  expect_tensor_refused(R"("dtype":"I64","shape":[1],"data_offsets":[0,8])", "12345678", "tensor.float()");
}

TEST_F(Safetensors, NonFilesAreRefused) {
  const auto expect_unreadable = [](const fs::path& what, const std::string& message) {
    try {
      read_safetensors(what);
      ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::data);
      EXPECT_NE(std::string(e.what()).find(what.string() + message), std::string::npos) << e.what();
    }
  };
  expect_unreadable(folder, ": is a folder, not a file");
  expect_unreadable(path, ": cannot read it: No such file or directory");
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

  const auto load = [&](const std::vector<Parameter>& others) {
    return error_of([&] { load_state_dict(path, others, {}); });
  };
  expect_error(load(parameters_of(make_model("lenet", {32, 32, 1}, 10))), Exit::model, "7.weight");
  const std::vector<Parameter> fewer(parameters.begin(), parameters.end() - 2);  // without the first layer
  expect_error(load(fewer), Exit::model, "only in the file: 0.");
}

TEST_F(Safetensors, BatchNormStateHasPytorchsNames) {
  const Network network = make_model("keras-convnet", {28, 28, 1}, 10);
  const auto parameters = parameters_of(network);
  const auto batch_norms = batch_norm_states_of(network);
  ModelState state{.weights = std::vector<float>(flat_count(parameters)),
                   .statistics = std::vector<float>(state_count(batch_norms)),
                   .updates = 468};
  for (size_t i = 0; i < state.statistics.size(); ++i) state.statistics[i] = static_cast<float>(i) / 3;
  save_state_dict(path, parameters, batch_norms, state.view());
  const auto tensors = read_safetensors(path);
  EXPECT_EQ(tensors.at("4.running_var").shape, (std::vector<int64_t>{24}));
  EXPECT_EQ(tensors.at("4.running_var").values[0], state.statistics[2 * 12 + 24]);
  EXPECT_EQ(tensors.at("4.weight").values, std::vector<float>(24, 1));  // norms without scale
  EXPECT_EQ(tensors.at("7.num_batches_tracked").integer, 468);
  const ModelState back = load_state_dict(path, parameters, batch_norms);
  EXPECT_EQ(back.statistics, state.statistics);
  EXPECT_EQ(back.updates, 468);
}

TEST_F(Safetensors, FullDiskIsReported) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto action = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 4, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  try {
    write_safetensors(path, sources_of({{"a", {1}, {1}, {}}}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::output);
    EXPECT_NE(std::string(e.what()).find("File too large"), std::string::npos) << e.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, action);
  EXPECT_TRUE(fs::is_empty(path.parent_path()));
}

}  // namespace
}  // namespace ddp
