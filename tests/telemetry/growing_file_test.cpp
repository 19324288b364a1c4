#include "telemetry/growing_file.h"

#include "core/error.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace ddp {
namespace {

// No file of this process grows beyond `bytes`: a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    ::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit old_{};
  const sighandler_t handler_ = ::signal(SIGXFSZ, SIG_IGN);
};

TEST(GrowingFile, AFullDiskIsSaidOnceAndAgainAtTheEnd) {
  const TempFolder temp;
  const auto path = temp / "events";
  const std::string before(1000, 'a');  // longer than the warning, which goes to a file too
  std::ofstream(path) << before;
  GrowingFile file(path);
  ::testing::internal::CaptureStderr();
  {
    const FullDisk disk(1002);
    for (int i = 0; i < 3; ++i) {
      file.write("defg");
      file.flush();
    }
  }
  file.write("hij");
  file.flush();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said, "warning: cannot write " + path.string() + ": File too large; training continues without it\n");
  try {
    file.close();
    ADD_FAILURE() << "the file is not complete";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::output);
    EXPECT_NE(std::string(e.what()).find(path.string() + ": File too large"), std::string::npos) << e.what();
  }
  std::ifstream read(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(read), {}), before + "de");
}

// A write for many records, none of them cut.
TEST(GrowingFile, WholeRecordsReachTheFile) {
  const TempFolder temp;
  const auto path = temp / "events";
  std::ofstream(path) << "begin";
  GrowingFile file(path);
  std::string expected = "begin";
  std::set<uintmax_t> sizes;
  const auto write = [&](const std::string& record) {
    file.write(record);
    expected += record;
    sizes.insert(std::filesystem::file_size(path));
    EXPECT_EQ(file.size(), std::ssize(expected));
  };
  for (int i = 0; i < 100; ++i) write(std::string(1000, 'a'));
  EXPECT_EQ(sizes, (std::set<uintmax_t>{5, 32'005, 64'005, 96'005}));
  write(std::string(50'000, 'b'));
  file.write("c");
  EXPECT_EQ(std::filesystem::file_size(path), expected.size());
  file.close();
  std::ifstream read(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(read), {}), expected + "c");
}

// The run has failed.
TEST(GrowingFile, TheEndOfItsLifeWritesTheRest) {
  const TempFolder temp;
  const auto path = temp / "events";
  std::ofstream(path) << "";
  GrowingFile(path).write("a");
  EXPECT_EQ(std::filesystem::file_size(path), 1u);
}

}  // namespace
}  // namespace ddp
