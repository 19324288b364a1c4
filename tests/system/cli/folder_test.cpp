// Nothing is written through a link, and two runs never share a folder.
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/job.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

class RunFolder : public ::testing::Test {
 protected:
  RunFolder() { few_images(folder_ / "images", 640, 100); }

  std::string arguments(const std::string& more) const {
    return fmt::format("--data-path {} --batch-size 64 --print-freq 0 --eval-every 0 --output-dir {} {}",
                       (folder_ / "images").string(), run_.string(), more);
  }

  const TempFolder folder_;
  const fs::path run_ = folder_ / "run";
};

TEST_F(RunFolder, LinksAreReplacedOrRefused) {
  const Outcome first = program(0, arguments("--max-steps 2 --save-every 1steps"));
  ASSERT_EQ(first.code, 0) << first.output;
  struct Link {
    const char* name;
    bool is_folder, refused;
  };
  for (const auto& [name, is_folder, refused] : {Link{"config.toml.tmp", false, false},
                                                 {"config.toml", false, false},
                                                 {"metrics.jsonl.tmp", false, false},
                                                 {"metrics.jsonl", false, false},
                                                 {"summary.json", false, false},
                                                 {"model.safetensors", false, false},
                                                 {"profile.json", false, false},
                                                 {"flight/rank-0.json", false, false},
                                                 {".lock", false, true},
                                                 {"flight", true, true},
                                                 {"checkpoints", true, true}}) {
    SCOPED_TRACE(name);
    const fs::path victim = folder_ / "victim", evil = folder_ / "evil", link = evil / name;
    fs::remove_all(evil);
    fs::remove_all(victim);
    fs::copy(run_, evil, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    if (is_folder && fs::exists(link))
      fs::rename(link, victim);
    else if (is_folder)
      fs::create_directory(victim);
    else
      folder_.write("victim", "{\"mine\":1}\n");
    fs::remove_all(link);
    fs::create_directories(link.parent_path());
    fs::create_symlink(victim, link);
    const auto entries = [&] {
      return is_folder ? std::distance(fs::directory_iterator(victim), fs::directory_iterator()) : 0;
    };
    const auto before = entries();
    const bool fails = std::string(name).starts_with("flight");
    const Outcome resumed = program(
        0, fmt::format("--data-path {} --batch-size 64 --print-freq 0 --eval-every 0 --max-steps 5 --resume {} {}",
                       (folder_ / "images").string(), evil.string(), fails ? "--inject rank=0,step=3,kind=nan" : ""));
    EXPECT_EQ(resumed.code, refused ? 4 : fails ? 6 : 0) << resumed.output;
    if (refused) {
      EXPECT_GE(count(resumed.output, link.string()), 1) << resumed.output;
    }
    if (is_folder)
      EXPECT_EQ(entries(), before);
    else
      EXPECT_EQ(read_file(victim), "{\"mine\":1}\n");
  }
}

// The first run is stopped while the folder is replaced, so that it saves only afterwards.
TEST_F(RunFolder, RunWhoseFolderIsReplacedEnds) {
  const std::string steps = arguments("--save-every 20steps --resume auto --max-steps ");
  Job job(folder_, 2, steps + "1000000");
  ASSERT_TRUE(job.says("saved ")) << job.output();
  const pid_t rank = job.rank(0);
  ASSERT_EQ(::kill(rank, SIGSTOP), 0);
  fs::rename(run_, folder_ / "old");
  fs::remove_all(folder_ / "old");
  const Outcome second = program(0, steps + "40");
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(run_)) found.push_back(entry.path().string());
    std::ranges::sort(found);
    return found;
  };
  const auto before = names();
  ASSERT_EQ(::kill(rank, SIGCONT), 0);
  EXPECT_EQ(job.end(), 4) << job.output();
  EXPECT_EQ(count(job.output(), "was removed or replaced while"), 1) << job.output();
  EXPECT_EQ(second.code, 0) << second.output;
  EXPECT_EQ(names(), before);
}

TEST_F(RunFolder, RemovedFolderIsNotMadeAgain) {
  Job job(folder_, 1, arguments("--save-every 20steps --max-steps 1000000"));
  ASSERT_TRUE(job.says("saved ")) << job.output();
  fs::rename(run_, folder_ / "moved");
  EXPECT_EQ(job.end(), 4) << job.output();
  EXPECT_EQ(count(job.output(), "was removed or replaced while"), 1) << job.output();
  EXPECT_FALSE(fs::exists(run_));
}

TEST_F(RunFolder, LockIsPrivateAndNamesItsHolder) {
  fs::create_directories(run_);
  const fs::path lock = folder_.write("run/.lock", "process 7 of user 8 on \x1b[31mnode9");
  const int file = ::open(lock.c_str(), O_RDWR);
  ASSERT_EQ(::flock(file, LOCK_EX), 0);
  const Outcome held = program(0, arguments("--max-steps 1"));
  EXPECT_EQ(held.code, 4);
  EXPECT_EQ(count(held.output, "(process 7 of user 8 on \\x1B[31mnode9)"), 1) << held.output;
  ::close(file);
  const Outcome run = program(0, arguments("--max-steps 1"));
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_EQ(fs::status(lock).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_TRUE(read_file(lock).starts_with("process ")) << read_file(lock);
  if (::geteuid() != 0) return;
  const Outcome other =
      shell(fmt::format("chmod 755 {} {}; setpriv --reuid 65534 --regid 65534 --clear-groups "
                        "flock -xn {} true",
                        folder_.path().string(), run_.string(), lock.string()));
  EXPECT_NE(other.code, 0) << "another user takes the lock";
}

// Another user plants links in a folder that all may write to. What the run writes under umask 077, and the memory of
// its ranks, that user cannot read.
TEST_F(RunFolder, OtherUsersHaveNoAccess) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string stranger = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
  const std::string run = run_.string();
  fs::create_directories(run_);
  folder_.write("victim", "mine");
  const Outcome planted = shell(
      fmt::format("chmod 755 {0} && chmod 1777 {1} && for name in config.toml metrics.jsonl model.safetensors; do "
                  "{2} ln -s {0}/victim {1}/$name.tmp || exit; done",
                  folder_.path().string(), run, stranger));
  ASSERT_EQ(planted.code, 0) << planted.output;
  const mode_t before = ::umask(077);
  Job job(folder_, 2, arguments("--max-steps 1000000 --epochs 100000 --save-every 20steps"));
  ::umask(before);
  ASSERT_TRUE(job.says("saved ")) << job.output();
  const Outcome found = shell(fmt::format("{{ {} find {} -type f -readable 2>/dev/null | cat; }}", stranger, run));
  EXPECT_EQ(found.output, "");
  const Outcome memory = shell(fmt::format("{} ls /proc/{}/fd", stranger, job.rank(1)));
  EXPECT_EQ(count(memory.output, "Permission denied"), 1) << memory.output;
  ::kill(job.rank(0), SIGTERM);
  EXPECT_EQ(job.end(), 75) << job.output();
  EXPECT_EQ(read_file(folder_ / "victim"), "mine");
}

}  // namespace
}  // namespace ddp::testing
