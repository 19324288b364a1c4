// tests/system/readers reads whole runs with TensorBoard's own readers; these are the cases that such runs do not have.
#include "telemetry/tensorboard.h"

#include "core/error.h"
#include "telemetry/event.pb.h"
#include "telemetry/tfrecord.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;

std::vector<tensorboard::Event> events_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<tensorboard::Event> events;
  for (uint64_t bytes = 0; file.read(reinterpret_cast<char*>(&bytes), sizeof bytes);) {
    std::string data(bytes, '\0');
    file.ignore(4).read(data.data(), static_cast<std::streamsize>(bytes)).ignore(4);
    EXPECT_TRUE(file.good());
    EXPECT_TRUE(events.emplace_back().ParseFromString(data));
  }
  return events;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files{fs::directory_iterator(folder), {}};
  std::sort(files.begin(), files.end());
  return files;
}

TEST(TfRecord, HasTheChecksumsOfRfc3720) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

TEST(TensorBoard, LeavesOutWhatIsNotFinite) {
  const TempFolder temp;
  TensorBoard board({.folder = temp / "tensorboard"});
  board.step({.step = 1, .loss = std::nan(""), .lr = 0, .samples = 8, .skipped = "NaN"});  // in no time: infinite speed
  board.close(false);
  const auto files = files_in(temp / "tensorboard" / "train");
  ASSERT_EQ(files.size(), 1u);
  const auto events = events_of(files[0]);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events[1].step(), 1);
  std::vector<std::string> tags;
  for (const auto& value : events[2].summary().value()) {
    tags.push_back(value.tag());
    EXPECT_TRUE(value.has_simple_value());
    EXPECT_EQ(value.simple_value(), 0);
  }
  EXPECT_EQ(tags, (std::vector<std::string>{"learning_rate", "step_ms/data", "step_ms/compute",
                                            "step_ms/exposed_communication"}));
}

TEST(TensorBoard, ShowsTokensAndThePerplexity) {
  const TempFolder temp;
  TensorBoard board({.folder = temp / "tensorboard"});
  board.step({.step = 1, .samples = 4, .sequence_length = 256, .skipped = {}, .times = {.compute = 125}});
  board.evaluation(1, 1, {.correct = 1, .samples = 1, .sequence_length = 4, .loss = std::log(30.5)}, 1);
  board.close(false);
  const auto value_of = [&](const char* run, const std::string& tag) {
    for (const auto& event : events_of(files_in(temp / "tensorboard" / run).at(0)))
      for (const auto& value : event.summary().value())
        if (value.tag() == tag) return value.simple_value();
    return std::nanf("");
  };
  EXPECT_EQ(value_of("train", "tokens_per_second"), 8192.0f);
  EXPECT_FLOAT_EQ(value_of("test", "perplexity"), 30.5f);
  EXPECT_EQ(value_of("test", "accuracy"), 0.25f);
}

TEST(TensorBoard, ShowsTheSpeedOfRanks) {
  const TempFolder temp;
  TensorBoard board({.folder = temp / "tensorboard"});
  board.speed(2, 40, {.ranks = {{1, 8, 3}, {0.5, 10.5, 1}}, .communication = 4, .batch = 64, .noise_scale = 1000.0});
  std::vector<std::pair<std::string, float>> values;
  for (const auto& event : events_of(files_in(temp / "tensorboard" / "train").at(0)))
    for (const auto& value : event.summary().value()) {
      EXPECT_EQ(event.step(), 40);
      values.emplace_back(value.tag(), value.simple_value());
    }
  EXPECT_EQ(values, (std::vector<std::pair<std::string, float>>{{"speed/communication_ms", 4.0f},
                                                                {"speed/hidden_communication", 0.75f},
                                                                {"speed/imbalance", 0.1f},
                                                                {"noise_scale", 1000.0f}}));
}

// TensorBoard reads the files of a folder in the order of their names.
TEST(TensorBoard, ANewFileIsTheLastAlsoAfterTheClockWentBack) {
  const TempFolder temp;
  const fs::path folder = temp / "tensorboard" / "train";
  fs::create_directories(folder);
  for (const char* name :
       {"events.out.tfevents.4000000000.z", "events.out.tfevents.12345678901", "events.out.tfevents.x", "notes"})
    std::ofstream(folder / name) << "";
  TensorBoard({.folder = temp / "tensorboard", .done = 5}).close(false);
  TensorBoard({.folder = temp / "tensorboard", .done = 7, .evaluation_due = true}).close(false);
  const auto files = files_in(folder);
  ASSERT_EQ(files.size(), 6u);
  EXPECT_EQ(files[2].filename().string().substr(0, 31), "events.out.tfevents.4000000001.");
  EXPECT_EQ(files[3].filename().string().substr(0, 31), "events.out.tfevents.4000000002.");
  EXPECT_EQ(events_of(files[2]).at(1).step(), 6);
  EXPECT_EQ(events_of(files[3]).at(1).step(), 8);
  const auto test = files_in(temp / "tensorboard" / "test");
  ASSERT_EQ(test.size(), 2u);
  EXPECT_EQ(events_of(test[0]).at(1).step(), 6);
  EXPECT_EQ(events_of(test[1]).at(1).step(), 7);
}

TEST(TensorBoard, NothingIsWrittenThroughALink) {
  for (const char* name : {"tensorboard", "tensorboard/train", "tensorboard/test"}) {
    const TempFolder temp;
    fs::create_directories(temp / "elsewhere");
    fs::create_directories((temp / name).parent_path());
    fs::create_directory_symlink(temp / "elsewhere", temp / name);
    try {
      const TensorBoard board({.folder = temp / "tensorboard"});
      ADD_FAILURE() << name << " accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::output);
      EXPECT_NE(std::string(e.what()).find("is a link"), std::string::npos) << e.what();
    }
    EXPECT_TRUE(fs::is_empty(temp / "elsewhere")) << name;
  }
}

}  // namespace
}  // namespace ddp
