// A power cut at any moment leaves whole checkpoints, and at least what was reported as saved. A run is logged once;
// the log is then cut after each line, and the program's own loader reads each state that the disk may have.
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/read_file.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/program.h"
#include "tests/system/powercut/disk.h"
#include "tests/system/powercut/saves.h"

#include <sys/stat.h>

#include <functional>
#include <optional>
#include <set>
#include <vector>

namespace ddp::testing {
namespace {

using Printed = std::vector<std::string>;  // lines

// The last line that begins with `word`, without it.
std::optional<std::string> last(const Printed& printed, const std::string& word) {
  for (auto line = printed.rbegin(); line != printed.rend(); ++line)
    if (line->starts_with(word + " ")) return line->substr(word.size() + 1);
  return std::nullopt;
}

int64_t last_number(const Printed& printed, const std::string& word) {
  return std::stoll(last(printed, word).value_or("0"));
}

void require_that(bool holds, const std::string& text) { require(holds, Exit::data, "{}", text); }

std::string listing(const Tree& tree) {
  std::string text;
  for (const auto& [path, entry] : tree)
    text += fmt::format("  {} {}\n", path,
                        entry.kind == Entry::Kind::folder ? std::string()
                        : entry.kind == Entry::Kind::link ? "-> " + *entry.content
                                                          : fmt::format("{} bytes", entry.content->size()));
  return text;
}

// Runs a command under the library in `folder`/disk, which is its working folder; then judges each state after a cut.
class PowerCut : public ::testing::Test {
 protected:
  // Throws Error for a state that a power cut must not leave. `printed`: the lines before the cut.
  using Judge = std::function<void(const fs::path& disk, const Printed& printed)>;

  void log(const std::string& command) {
    fs::create_directory(root);
    struct stat status {};
    ASSERT_EQ(::stat(root.c_str(), &status), 0);
    inode_ = std::to_string(status.st_ino);
    const Outcome outcome = shell(fmt::format(
        "cd {0} && CUDA_VISIBLE_DEVICES= DDP_WRITES_ROOT={0} DDP_WRITES_LOG={1} LD_PRELOAD={2} timeout 100 {3}",
        root.string(), (temp / "log").string(), DDP_LOG_WRITES, command));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    std::istringstream lines(read_file(temp / "log"));
    for (std::string line; std::getline(lines, line);) lines_.push_back(line);
  }

  // Each line is a moment of the cut. Stops at the first bad state.
  void cut_after_each_line(const Judge& judge) {
    Disk disk(root, inode_);
    Printed printed;
    std::set<std::pair<size_t, std::string>> seen;
    for (size_t i = 0; i < lines_.size() && !HasFailure(); ++i) {
      disk.apply(lines_[i]);
      if (lines_[i].starts_with("print\t")) {
        std::istringstream lines(bytes_of(lines_[i].substr(6)));
        for (std::string line; std::getline(lines, line);) printed.push_back(line);
      }
      disk.for_each_tree_after_a_cut([&](const Tree& tree) {
        if (HasFailure() || !seen.emplace(printed.size(), key(tree)).second) return;
        write(tree);
        try {
          judge(state_, printed);
        } catch (const std::exception& e) {
          ADD_FAILURE() << "a power cut after line " << i + 1 << " of the log, " << lines_[i].substr(0, 200) << "\n"
                        << e.what() << "\n"
                        << listing(tree);
        }
      });
    }
    if (HasFailure()) return;
    EXPECT_GT(seen.size(), lines_.size());
    std::printf("%zu states at %zu moments\n", seen.size(), lines_.size());
    expect_complete(disk.tree());
  }

  const TempFolder temp;
  const fs::path root = temp / "disk";

 private:
  static std::string key(const Tree& tree) {
    std::string key;
    for (const auto& [path, entry] : tree) key += fmt::format("{} {} ", path, fmt::ptr(entry.content));
    return key;
  }

  // Files of equal content are names of one file, which saves time.
  void write(const Tree& tree) {
    fs::remove_all(state_);
    fs::create_directory(state_);
    for (const auto& [path, entry] : tree) {
      if (entry.kind == Entry::Kind::folder) fs::create_directory(state_ / path);
      if (entry.kind == Entry::Kind::link) fs::create_symlink(*entry.content, state_ / path);
      if (entry.kind != Entry::Kind::file) continue;
      const auto [known, is_new] = files_.emplace(entry.content, temp / fmt::format("file-{}", files_.size()));
      if (is_new) std::ofstream(known->second, std::ios::binary) << *entry.content;
      fs::create_hard_link(known->second, state_ / path);
    }
  }

  // The log has all changes: without a power cut its end is the real folder. Streams are not logged.
  void expect_complete(const Tree& tree) const {
    std::set<std::string> names, expected;
    for (const auto& entry : fs::recursive_directory_iterator(root))
      names.insert(entry.path().lexically_relative(root).string());
    for (const auto& [path, entry] : tree) {
      expected.insert(path);
      if (entry.kind == Entry::Kind::link) {
        EXPECT_EQ(fs::read_symlink(root / path), *entry.content);
      } else if (entry.kind == Entry::Kind::file && !path.ends_with("metrics.jsonl")) {
        EXPECT_TRUE(read_file(root / path) == *entry.content) << path;
      }
    }
    EXPECT_EQ(names, expected);
  }

  std::string inode_;
  std::vector<std::string> lines_;
  const fs::path state_ = temp / "state";
  std::map<const std::string*, fs::path> files_;
};

// Reads the checkpoint with all its tensors, and returns its number.
int64_t whole_generation(const fs::path& checkpoint) {
  const Weights weights = few_weights();
  const Snapshot found = read_checkpoint(checkpoint, weights.tensors(), kAdam);
  const int64_t generation = generation_of(found.run);
  const Snapshot expected = saved_snapshot(found.run.step, generation);
  require_that(
      found.model.weights == expected.model.weights && found.optimizer[0].values == expected.optimizer[0].values,
      checkpoint.string() + " has tensors of another save");
  return generation;
}

void require_reported(const fs::path& found, int64_t generation, int64_t saved) {
  require_that(generation >= saved,
               fmt::format("{} is save {}, but {} was reported", found.string(), generation, saved));
}

void judge_links(const fs::path& checkpoints, const Printed& printed) {
  for (const auto& [link, word] : {std::pair("latest", "saved"), std::pair("best", "best")}) {
    const fs::path path = checkpoints / link;
    if (fs::is_symlink(fs::symlink_status(path)) || last_number(printed, word) > 0)
      require_reported(path, whole_generation(path), last_number(printed, word));
  }
}

void judge_saves(const fs::path& disk, const Printed& printed) {
  const fs::path run = disk / kRun;
  const int64_t saved = last_number(printed, "saved"), exported = last_number(printed, "exported");
  for (const fs::path& checkpoint : list_checkpoints(checkpoints_of(run))) whole_generation(checkpoint);
  judge_links(checkpoints_of(run), printed);
  std::vector<std::string> skipped;
  const auto found = fs::exists(run) ? find_checkpoint(run, skipped) : std::nullopt;
  require_reported(run, found ? whole_generation(found->path) : 0, saved);

  if (fs::exists(run / kExport) || exported > 0) {
    const auto tensors = read_safetensors(run / kExport);
    require_reported(run / kExport, std::stoll(tensors.begin()->first), exported);
  }
  for (const char* name : kNewFiles)
    if (fs::exists(run / name) || last_number(printed, "kept") > 0)
      require_that(read_whole_file(run / name, 100) == kNewContent, std::string(name) + " is not whole");
}

TEST_F(PowerCut, LeavesAWholeCheckpoint) {
  log(fmt::format("{} {}", DDP_SAVES, root.string()));
  cut_after_each_line(judge_saves);
}

// Without --output-dir, so that the program names its folder.
TEST_F(PowerCut, LeavesARunThatCanBeResumed) {
  few_images(temp / "images", 64, 16);
  log(
      fmt::format("{} --model mlp --data-path {} --batch-size 32 --epochs 1 --save-every 1steps --keep-last 1 "
                  "--print-freq 0",
                  DDP_PROGRAM, (temp / "images").string()));
  cut_after_each_line([](const fs::path& disk, const Printed& printed) {
    const auto saved = last(printed, "saved");
    const int64_t saved_step = saved ? std::stoll(saved->substr(saved->rfind('-') + 1)) : 0;
    int64_t step = 0;
    std::error_code none;
    for (const fs::path& run : fs::directory_iterator(disk / "runs", none)) {
      for (const fs::path& checkpoint : list_checkpoints(checkpoints_of(run))) {
        read_run_state(checkpoint);
        for (const char* file : {"model.safetensors", "optimizer.safetensors"}) read_safetensors(checkpoint / file);
      }
      std::vector<std::string> skipped;
      if (const auto found = find_checkpoint(run, skipped)) step = found->state.step;
      if (fs::exists(run / kExport) || last(printed, "test acc:")) read_safetensors(run / kExport);
    }
    require_reported(disk, step, saved_step);
  });
}

// The checker itself: each cut has the states that it must have.
std::set<std::string> states(const std::vector<std::string>& log) {
  Disk disk("/d", "1");
  for (const std::string& line : log) disk.apply(line);
  std::set<std::string> states;
  disk.for_each_tree_after_a_cut([&](const Tree& tree) {
    std::string state;
    for (const auto& [path, entry] : tree) state += path + "=" + *entry.content + ";";
    states.insert(state);
  });
  return states;
}

TEST(PowerCutDisk, LosesWhatWasNotFlushed) {
  const std::vector<std::string> written = {"file\t2\t/d/a", "write\t2\t0\t6162"};  // "ab"
  std::vector<std::string> log = written;
  EXPECT_EQ(states(log), (std::set<std::string>{"", "a=;", "a=ab;", "a=a;", std::string("a=\0\0;", 5)}));
  log.push_back("flush\t2");
  EXPECT_EQ(states(log), (std::set<std::string>{"", "a=ab;"}));
  log.push_back("flush\t1");
  EXPECT_EQ(states(log), (std::set<std::string>{"a=ab;"}));
  log.push_back("rename\t/d/a\t/d/b");
  log.push_back("file\t3\t/d/a");
  EXPECT_EQ(states(log), (std::set<std::string>{"a=ab;", "b=ab;", "a=;", "a=;b=ab;"}));
  log.push_back("flush\t1");
  log.push_back("exchange\t/d/a\t/d/b");
  EXPECT_EQ(states(log), (std::set<std::string>{"a=;b=ab;", "a=ab;b=;"}));
  log.push_back("flush\t1");
  log.push_back("remove\t/d/b");
  EXPECT_EQ(states(log), (std::set<std::string>{"a=ab;b=;", "a=ab;"}));
}

}  // namespace
}  // namespace ddp::testing
