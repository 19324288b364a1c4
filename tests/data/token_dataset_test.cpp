#include "data/token_dataset.h"

#include "data/detect.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "data/subset.h"
#include "data/token_files.h"
#include "device/cpu/device.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kAny = 1'000'000;  // a vocabulary

template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

std::string header(int32_t magic, int32_t version, int32_t tokens) {
  std::vector<int32_t> words(256);
  words[0] = magic;
  words[1] = version;
  words[2] = tokens;
  return bytes_of(words);
}

// first, first + 1, ...
template <class Number = uint16_t>
std::string numbers(int64_t first, int64_t count) {
  std::vector<Number> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), static_cast<Number>(first));
  return bytes_of(all);
}

std::vector<int32_t> window(const Dataset& data, int64_t index) {
  std::vector<int32_t> tokens(static_cast<size_t>(data.sequence_length()) + 1);
  data.read({index}, {reinterpret_cast<uint8_t*>(tokens.data()), tokens.size() * sizeof(int32_t)});
  return tokens;
}

class TokenData : public ::testing::Test {
 protected:
  TokenPart part(const std::string& name, const std::string& content) const {
    const auto file = std::make_shared<const TokenFile>(folder_.write(name, content));
    return {file, 0, file->tokens()};
  }
  void expect_refused(const std::string& content, std::initializer_list<std::string> parts,
                      std::optional<TokenType> type = {}, Exit code = Exit::data) const {
    const fs::path file = folder_.write("bad.bin", content);
    expect_error(code, parts, [&] { TokenFile(file, type); });
  }
  const TempFolder folder_;
};

// Of 3 tokens each: 13 tokens have 4 windows and no tail, 14 have 4 and a tail of one, 3 tokens have none.
TEST_F(TokenData, WindowsAreExactInEachTypeAndFile) {
  const TokenDataset data({part("a", numbers(0, 13)), part("b", numbers<uint32_t>(200, 0)),
                           part("c", header(20240801, 7, 14) + numbers<uint32_t>(70'000, 14)), part("d", numbers(5, 3)),
                           part("e", header(20240520, 1, 4) + numbers(65'530, 4))},
                          3, kAny);
  EXPECT_EQ(data.size(), 9);
  EXPECT_EQ(data.tokens(), 34);
  EXPECT_EQ(data.image_shape(), (ImageShape{3, 1, 1}));
  EXPECT_EQ(data.classes(), kAny);
  EXPECT_EQ(data.sample_bytes(), 16);
  for (int32_t i = 0; i < 9; ++i) {
    const int32_t first = i < 4 ? 3 * i : i < 8 ? 70'000 + 3 * (i - 4) : 65'530;
    EXPECT_EQ(window(data, i), (std::vector<int32_t>{first, first + 1, first + 2, first + 3})) << i;
  }
  std::vector<uint8_t> bytes(16);
  EXPECT_THROW(data.read({9}, bytes), Error);
}

TEST_F(TokenData, TypeIsGivenOrThatOfTheHeader) {
  const fs::path raw = folder_.write("raw", numbers<uint32_t>(70'000, 6));
  EXPECT_EQ(TokenFile(raw).tokens(), 12);
  const auto file = std::make_shared<const TokenFile>(raw, TokenType::uint32);
  EXPECT_EQ(file->tokens(), 6);
  EXPECT_EQ(window(TokenDataset({{file, 1, 5}}, 4, kAny), 0),
            (std::vector<int32_t>{70'001, 70'002, 70'003, 70'004, 70'005}));
  EXPECT_EQ(TokenFile(folder_.write("16", header(20240520, 1, 2) + numbers(0, 2)), TokenType::uint16).tokens(), 2);
  expect_refused(header(20240801, 7, 2) + numbers<uint32_t>(0, 2),
                 {"--token-type uint16: the header of ", "bad.bin says uint32"}, TokenType::uint16, Exit::usage);
}

TEST_F(TokenData, FilesThatLieAreRefused) {
  expect_refused(header(20240520, 1, 5) + numbers(0, 4), {"bad.bin", "says 5 tokens of 2 bytes", "1034 bytes", "1032"});
  expect_refused(header(20240520, 1, 4) + numbers(0, 5), {"bad.bin", "1032 bytes", "it has 1034"});
  expect_refused(header(20240801, 7, 4) + numbers(0, 4), {"says 4 tokens of 4 bytes", "1040 bytes"});
  expect_refused(header(20240520, 1, 1 << 30) + numbers(0, 4), {"says 1073741824 tokens", "2147484672 bytes"});
  expect_refused(header(20240520, 1, -1), {"says -1 tokens"});
  expect_refused(header(20240520, 2, 0), {"version 2", "version 1 is read"});
  expect_refused(header(20240801, 1, 0), {"version 1", "version 7 is read"});
  expect_refused(header(20240520, 1, 0).substr(0, 1023), {"1023 bytes of a header of 1024"});
  expect_refused("abc", {"bad.bin", "3 bytes", "no multiple of the 2 of a uint16 token"});
  expect_refused("abcdef", {"6 bytes", "no multiple of the 4 of a uint32 token"}, TokenType::uint32);
  const std::string no_window = "no file has the 5 tokens of one window";
  expect_error(Exit::data, {"/a and the files after it: " + no_window}, [&] {
    TokenDataset({part("a", numbers(0, 4)), part("b", "")}, 4, kAny);
  });
  expect_error(Exit::data, {"/c: 2147483648 windows are more than 2147483647; use a longer --sequence-length"}, [&] {
    const fs::path sparse = folder_.write("c", "");
    fs::resize_file(sparse, (uintmax_t{1} << 32) + 2);
    const auto file = std::make_shared<const TokenFile>(sparse);
    TokenDataset({{file, 0, file->tokens()}}, 1, kAny);
  });
}

TEST_F(TokenData, OnlyRegularFilesAreRead) {
  const fs::path file = folder_.write("file", numbers(0, 9));
  fs::create_symlink(file, folder_ / "link");
  EXPECT_EQ(TokenFile(folder_ / "link").tokens(), 9);
  expect_error(Exit::data, {"missing"}, [&] { TokenFile(folder_ / "missing"); });
  fs::create_directory(folder_ / "train.bin");
  expect_error(Exit::data, {"train.bin: is a folder, not a file"}, [&] { TokenFile(folder_ / "train.bin"); });
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  expect_error(Exit::data, {"fifo: is a FIFO"}, [&] { TokenFile(folder_ / "fifo"); });
}

TEST_F(TokenData, TheFileThatIsReadHasAName) {
  const TokenDataset data({part("a", numbers(0, 2001))}, 2000, kAny);
  EXPECT_EQ(data.being_read(), "");
  std::atomic<bool> seen = false;
  std::thread reader([&] {
    while (!seen) window(data, 0);
  });
  std::string name;
  for (int poll = 0; poll < 1'000'000 && name.empty(); ++poll) {
    name = data.being_read();
    std::this_thread::yield();
  }
  seen = true;
  reader.join();
  EXPECT_EQ(name, (folder_ / "a").string());
  EXPECT_EQ(data.being_read(), "");
}

TEST_F(TokenData, AFileThatShrinksOrAForeignTokenIsNamed) {
  const TokenDataset data({part("a", header(20240520, 1, 21) + numbers(0, 21))}, 4, 13);
  EXPECT_EQ(window(data, 2).back(), 12);
  expect_error(Exit::data, {"/a: token 13 at position 13 is not in the vocabulary of 13 tokens", "--vocab-size"},
               [&] { window(data, 3); });
  EXPECT_EQ(data.being_read(), "");
  fs::resize_file(folder_ / "a", 1024 + 30);
  EXPECT_EQ(window(data, 2).back(), 12);
  expect_error(Exit::data, {"/a: has become shorter: it had 1066 bytes when this run began, and has 1054 now"},
               [&] { window(data, 4); });
  const TokenDataset wide(
      {{std::make_shared<const TokenFile>(folder_.write("b", bytes_of(std::vector<uint32_t>{1, 4'000'000'000})),
                                          TokenType::uint32),
        0, 2}},
      1, kAny);
  expect_error(Exit::data, {"token 4000000000 at position 1 is not"}, [&] { window(wide, 0); });
}

TEST_F(TokenData, AShareOfTheEndIsSplitOff) {
  std::vector<TokenPart> train = {part("a", numbers(0, 60)), part("b", numbers(100, 30)), part("c", numbers(200, 10))};
  const std::vector<TokenPart> val = split_off(train, 0.25);
  const TokenDataset before(train, 5, kAny), after(val, 5, kAny);
  EXPECT_EQ(before.tokens(), 75);
  EXPECT_EQ(before.size(), 11 + 2);
  EXPECT_EQ(window(before, 12).back(), 110);
  EXPECT_EQ(after.size(), 2 + 1);
  EXPECT_EQ(window(after, 0).front(), 115);
  EXPECT_EQ(window(after, 2).front(), 200);
  EXPECT_TRUE(split_off(train, 0.001).empty());
}

TEST_F(TokenData, NamesChooseTheParts) {
  const auto names = [&] {
    const TokenFiles files = find_token_files(folder_.path());
    std::string text;
    for (const auto* part : {&files.train, &files.val}) {
      for (const fs::path& file : *part) text += file.filename().string() + " ";
      text += "| ";
    }
    for (const std::string& note : files.notes) text += note;
    return text;
  };
  for (const char* name : {"fine_train_000002.bin", "fine_TRAIN_000001.BIN", ".train.bin", "train.txt", "meta.bin"})
    folder_.write(name);
  EXPECT_EQ(names(), "fine_TRAIN_000001.BIN fine_train_000002.bin | | ");
  folder_.write("test.bin");
  EXPECT_EQ(names(), "fine_TRAIN_000001.BIN fine_train_000002.bin | test.bin | ");
  folder_.write("fine_val_000000.bin");
  EXPECT_EQ(names(),
            "fine_TRAIN_000001.BIN fine_train_000002.bin | fine_val_000000.bin | not read: test.bin, because "
            "there are files with `val` in their names");
  folder_.write("train_val.bin");
  expect_error(Exit::data, {"train_val.bin: its name says training and validation data"}, [&] { names(); });
  EXPECT_EQ(find_token_files(folder_ / "meta.bin").train, std::vector<fs::path>{folder_ / "meta.bin"});
  const TempFolder words;
  for (const char* name : {"latest_train_0.bin", "interval_training.bin", "retrieval-Train2.bin", "value.bin"})
    words.write(name);
  EXPECT_EQ(find_token_files(words.path()).train.size(), 3u);
  EXPECT_TRUE(find_token_files(words.path()).val.empty());
  for (const char* name : {"TinyStoriesV2-GPT4-valid.bin", "validation.bin"}) words.write(name);
  EXPECT_EQ(find_token_files(words.path()).val.size(), 2u);
  const TempFolder other;
  for (const char* name : {"val.bin", "trainer.bin"}) other.write(name);
  expect_error(Exit::data, {"has no token file *.bin with `train` in its name; found trainer.bin, val.bin"},
               [&] { find_token_files(other.path()); });
}

TEST_F(TokenData, AutoFindsThemAndNoOtherFiles) {
  folder_.write("nano/train.bin", numbers(0, 9));
  folder_.write("nano/meta.pkl");
  EXPECT_EQ(detect_dataset(folder_ / "nano"), "tokens");
  EXPECT_EQ(detect_dataset(folder_ / "nano/train.bin"), "tokens");
  folder_.write("nano/logs/log.txt");
  EXPECT_EQ(detect_dataset(folder_ / "nano"), "tokens");
  folder_.write("nano/classes/cat/a.png");
  EXPECT_EQ(detect_dataset(folder_ / "nano"), "folder");
  folder_.write("nano/cut_train.bin", header(20240520, 1, 0).substr(0, 1023));
  folder_.write("nano/new_train.bin", header(20240520, 2, 0));
  EXPECT_EQ(detect_dataset(folder_ / "nano"), "folder");
  folder_.write("nano/shard_train_0.bin", header(20240520, 1, 0));
  EXPECT_EQ(detect_dataset(folder_ / "nano"), "tokens");

  folder_.write("cifar10/data_batch_1.bin", std::string(3073, '\0'));
  folder_.write("cifar10/test_batch.bin", std::string(3073, '\0'));
  expect_error(Exit::data, {"found data_batch_1.bin, test_batch.bin"}, [&] { detect_dataset(folder_ / "cifar10"); });
  folder_.write("cifar100/train.bin", std::string(2 * 3074, '\0'));
  folder_.write("cifar100/test.bin", std::string(3074, '\0'));
  expect_error(Exit::data, {"found test.bin, train.bin"}, [&] { detect_dataset(folder_ / "cifar100"); });
  folder_.write("cifar100/fine_label_names.txt");
  EXPECT_EQ(detect_dataset(folder_ / "cifar100"), "cifar100");
}

// Each token that is a label is one once an epoch, whatever the number of ranks and threads.
TEST_F(TokenData, EachWindowIsReadOnceAnEpochByAnyWorld) {
  constexpr int64_t kT = 4, kWindows = 37;
  const TokenDataset data({part("a", numbers(0, 20 * kT + 1)), part("b", numbers(500, 17 * kT + 3))}, kT, kAny);
  ASSERT_EQ(data.size(), kWindows);
  const auto device = make_cpu_device();
  for (const int world : {1, 2, 3, 5}) {
    std::vector<int> seen(700);
    for (int rank = 0; rank < world; ++rank) {
      const DistributedSampler sampler(data.size(), 8, Order::shuffled, 3, rank, std::vector<double>(world, 1.0));
      Loader loader(data, sampler, sampler.steps_per_epoch(), 2 * sampler.steps_per_epoch(), device->host_memory(),
                    {.workers = rank + 1});
      for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
        const HostBatch& batch = loader.next();
        for (int64_t i = 0; i < batch.plan.size; ++i) {
          std::vector<int32_t> tokens(kT + 1);
          std::memcpy(tokens.data(), batch.samples + i * data.sample_bytes(), data.sample_bytes());
          EXPECT_EQ(tokens, window(data, batch.ids[i]));
          for (size_t t = 1; t <= kT; ++t) ++seen[tokens[t]];
        }
      }
    }
    for (int token = 0; token < 700; ++token) {
      const bool label = (token >= 1 && token <= 80) || (token > 500 && token <= 568);
      EXPECT_EQ(seen[token], label ? 1 : 0) << token << " of " << world << " ranks";
    }
  }
  const Subset some(data, 5);
  EXPECT_EQ(some.sequence_length(), kT);
  EXPECT_FALSE(some.in_memory());
}

}  // namespace
}  // namespace ddp
