#include "checkpoint/safetensors.h"
#include "tests/checkpoint/fixture.h"

#include <sys/stat.h>

#include <cstring>

namespace ddp {
namespace {

const std::vector<std::string> kAllFiles = {"model.safetensors", "optimizer.safetensors", "state.json",
                                            "manifest.json"};

void put_byte(const fs::path& path, size_t place, char byte) {
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(place))
      .put(byte);
}

class BrokenCheckpoint : public CheckpointFolder {
 protected:
  BrokenCheckpoint() : checkpoint(write(1)) {}
  ~BrokenCheckpoint() override {
    if (!HasFailure()) read(write(1));  // a new save repairs the checkpoint that the test broke
  }

  void expect_unsound(const std::string& file, const std::string& why) const {
    expect_error(error_of([&] { read_run_state(checkpoint); }), Exit::data, (checkpoint / file).string());
    expect_error(error_of([&] { read(checkpoint); }), Exit::data, why);
  }
  // Writes a file with a correct checksum and expects that the reader refuses its content.
  void expect_refused(const std::string& file, const std::string& content, Exit code, const std::string& why) const {
    put(checkpoint / file, content);
    fs::remove(checkpoint / "manifest.json");
    write_manifest(checkpoint, kCheckpointFiles);
    expect_error(error_of([&] { read(checkpoint); }), code, (checkpoint / file).string());
    expect_error(error_of([&] { read(checkpoint); }), code, why);
  }
  std::string replaced(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = content_of(checkpoint / file);
    const size_t place = text.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    return place == std::string::npos ? text : text.replace(place, from.size(), to);
  }

  const fs::path checkpoint;
};

TEST_F(BrokenCheckpoint, EveryFlippedBitIsDetected) {
  for (const std::string& name : kAllFiles) {
    const size_t stride = name.ends_with(".json") ? 1 : 11;  // every byte, or a sample
    const std::string good = content_of(checkpoint / name);
    ASSERT_LT(good.size(), 1000u) << name;
    for (size_t bit = 0; bit < 8 * good.size(); bit += stride) {
      put_byte(checkpoint / name, bit / 8, static_cast<char>(good[bit / 8] ^ (1 << bit % 8)));
      const Error error = error_of([&] { read_run_state(checkpoint); });
      ASSERT_EQ(error.code(), Exit::data) << name << " bit " << bit << ": " << error.what();
      put_byte(checkpoint / name, bit / 8, good[bit / 8]);
    }
    read_run_state(checkpoint);
  }
}

TEST_F(BrokenCheckpoint, TruncatedMissingAndNonFilesAreRefused) {
  for (const std::string& name : kAllFiles) {
    const std::string good = content_of(checkpoint / name);
    for (const size_t bytes : {size_t{0}, size_t{7}, good.size() - 1}) {
      put(checkpoint / name, good.substr(0, bytes));
      expect_unsound(name, name == "manifest.json" ? "manifest" : "truncated");
    }
    put(checkpoint / name, good + " ");
    expect_unsound(name, name);
    fs::remove(checkpoint / name);
    expect_unsound(name, "No such file");
    fs::create_directory(checkpoint / name);
    expect_unsound(name, "is a folder, not a file");
    fs::remove(checkpoint / name);
    ASSERT_EQ(mkfifo((checkpoint / name).c_str(), 0600), 0);
    expect_unsound(name, "is a FIFO, not a file");
    fs::remove(checkpoint / name);
    put(checkpoint / name, good);
  }
}

TEST_F(BrokenCheckpoint, InvalidManifestIsRefused) {
  const auto expect = [&](const std::string& text, const std::string& why) {
    put(checkpoint / "manifest.json", text);
    expect_unsound("manifest.json", why);
  };
  expect("not JSON", "is not JSON, from byte 2 on");
  expect("[1, 2]", "not a checkpoint's manifest");
  expect(R"({"format": 1})", "files");
  expect(R"({"format": 2, "files": {}})", "this program reads format 1");
  expect(R"({"format": "1", "files": {}})", "this program reads format 1");
  expect(R"({"format": 1, "files": {"model.safetensors": 3}})", "not a checkpoint's manifest");
  fs::resize_file(checkpoint / "manifest.json", 1 << 30);
  expect_unsound("manifest.json", "1073741824 bytes");
}

TEST_F(BrokenCheckpoint, ManifestOfOtherFilesIsRefused) {
  const std::string good = content_of(checkpoint / "manifest.json");
  for (const char* name : {"../model.safetensors", "/etc/passwd", "extra.json"}) {
    put(checkpoint / "manifest.json", good);
    put(checkpoint / "manifest.json", replaced("manifest.json", "\"files\": {\n",
                                               fmt::format("\"files\": {{\n    \"{}\": {{\"bytes\": 1, \"crc32\": "
                                                           "\"00000000\"}},\n",
                                                           name)));
    expect_unsound("manifest.json", "checksum");
  }
  put(checkpoint / "manifest.json", good);
  put(checkpoint / "manifest.json", replaced("manifest.json", "\"bytes\": ", "\"bytes\": -"));
  expect_unsound("manifest.json", "not a whole number");
  put(checkpoint / "manifest.json", good);
  put(checkpoint / "manifest.json", replaced("manifest.json", "\"bytes\": ", "\"bytes\": 88888888888888888888"));
  expect_unsound("manifest.json", "not a whole number");
}

TEST_F(BrokenCheckpoint, PathThatIsNotAFolderIsRefused) {
  const fs::path file = checkpoint / "model.safetensors";
  expect_error(error_of([&] { read(file); }), Exit::data, file.string() + " is a file");
  expect_error(error_of([&] { read(run / "nowhere"); }), Exit::data, "missing");
}

TEST_F(BrokenCheckpoint, InvalidModelFileWithAValidChecksumIsRefused) {
  const std::string file = "model.safetensors";
  const auto with_header = [](uint64_t length, const std::string& rest) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + rest;
  };
  const std::string header = R"({"0.weight":{"dtype":"I8","shape":[2,3],"data_offsets":[0,6]}})";
  expect_refused(file, with_header(uint64_t{1} << 60, "{}"), Exit::data, "");
  expect_refused(file, with_header(header.size(), header + std::string(6, 'x')), Exit::data, "I8");
  write_safetensors(checkpoint / file,
                    sources_of({{"0.weight", {3, 2}, std::vector<float>(6)}, {"0.bias", {2}, {1, 2}}}));
  expect_refused(file, content_of(checkpoint / file), Exit::model, "[3, 2]");
  write_safetensors(checkpoint / file, sources_of({{"0.weight", {2, 3}, std::vector<float>(6)}}));
  expect_refused(file, content_of(checkpoint / file), Exit::model, "0.bias");
}

TEST_F(BrokenCheckpoint, InvalidOptimizerFileWithAValidChecksumIsRefused) {
  const std::string file = "optimizer.safetensors";
  const std::vector<NamedTensor> good = {{"0.weight.exp_avg", {2, 3}, std::vector<float>(6)},
                                         {"0.bias.exp_avg", {2}, {1, 2}},
                                         {"0.weight.exp_avg_sq", {2, 3}, std::vector<float>(6)},
                                         {"0.bias.exp_avg_sq", {2}, {1, 2}}};
  const auto expect = [&](const std::vector<NamedTensor>& tensors, const std::string& why) {
    write_safetensors(checkpoint / file, sources_of(tensors));
    expect_refused(file, content_of(checkpoint / file), Exit::model, why);
  };
  auto bad = good;
  bad.pop_back();
  expect(bad, "3 of its 4 tensors fit; not in the file: 0.bias.exp_avg_sq");
  bad = good;
  bad.push_back({"0.bias.max_exp_avg_sq", {2}, {1, 2}});
  expect(bad, "only in the file: 0.bias.max_exp_avg_sq");
  bad = good;
  bad[1] = {.name = "0.bias.exp_avg", .shape = {}, .integer = 3};
  expect(bad, "another shape: 0.bias.exp_avg (file [], model [2])");
}

TEST_F(BrokenCheckpoint, InvalidStateWithAValidChecksumIsRefused) {
  const std::string file = "state.json";
  const std::string good = content_of(checkpoint / file);
  const auto expect = [&](const std::string& from, const std::string& to, const std::string& why) {
    put(checkpoint / file, good);
    expect_refused(file, replaced(file, from, to), Exit::data, why);
  };
  for (const char* key :
       {"format", "step", "epoch", "cursor", "skipped", "skipped_in_a_row", "evaluation_due", "samples",
        "train_seconds", "accuracy", "best_accuracy", "affects_results", "affects_rounding", "autotune"})
    expect(fmt::format("\"{}\":", key), "\"other\":", fmt::format("'{}'", key));
  expect("\"format\": 2", "\"format\": 3", "this program reads formats 1 and 2");
  expect("\"format\": 2", "\"format\": 1", "'mathematics'");
  expect("\"format\": 2", "\"format\": " + std::string(200000, '[') + std::string(200000, ']'), "nested too deeply");
  expect("\"step\": 1", "\"step\": -1", "\"step\" has an invalid value");
  expect("\"step\": 1", "\"step\": 1.5", "\"step\"");
  expect("\"step\": 1", "\"step\": 18446744073709551615", "\"step\"");
  expect("\"best_epoch\": 0", "\"best_epoch\": -1", "\"best_epoch\" has an invalid value");
  expect("\"bn_stats_samples\": 0", "\"bn_stats_samples\": -1", "\"bn_stats_samples\" has an invalid value");
  expect("\"evaluation_due\": false", "\"evaluation_due\": 0", "\"evaluation_due\"");
  expect("\"accuracy\": -1.0", "\"accuracy\": \"-1.0\"", "\"accuracy\"");
  expect("\"affects_rounding\": {}", "\"affects_rounding\": []", "\"affects_rounding\"");
  expect("\"affects_rounding\": {}", "\"affects_rounding\": {\"ranks\": 3}", "\"affects_rounding\"");
  expect("{", "", "is not JSON");
  expect("{", "{\"step\": 1,", "has \"step\" twice");
  expect("\"skipped\": 0", "\"skipped\": 2", "\"skipped\" has an impossible value");
  expect("\"skipped_in_a_row\": 0", "\"skipped_in_a_row\": 1", "\"skipped_in_a_row\" has an impossible value");
  expect("\"train_seconds\": 0.0", "\"train_seconds\": -1e9", "\"train_seconds\" has an impossible value");

  put(checkpoint / file, good);
  put(checkpoint / file, replaced(file, "{", "{\"of a later version\": [1],"));
  fs::remove(checkpoint / "manifest.json");
  write_manifest(checkpoint, kCheckpointFiles);
  EXPECT_EQ(read_run_state(checkpoint).step, 1);
}

}  // namespace
}  // namespace ddp
