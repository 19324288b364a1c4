#include "core/read_file.h"

#include "core/error.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <fstream>
#include <string>

namespace ddp {
namespace {

namespace fs = std::filesystem;

class ReadFile : public ::testing::Test {
 protected:
  static void expect_refused(const fs::path& path, const std::string& why) {
    const auto expect = [&](const auto& read) {
      try {
        read();
        ADD_FAILURE() << path << " is accepted";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::data);
        EXPECT_EQ(std::string(e.what()).find(path.string() + ": "), 0u) << e.what();
        EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
      }
    };
    expect([&] { open_for_reading(path); });
    expect([&] { FileStream{path}; });
    expect([&] { read_whole_file(path, 10); });
  }

  const TempFolder temp;
};

TEST_F(ReadFile, ReadsARegularFile) {
  const fs::path path = temp / "file", link = temp / "link";
  std::ofstream(path) << "content";
  fs::create_symlink(path, link);
  EXPECT_EQ(read_whole_file(link, 7), "content");
  FileStream stream(link);
  stream.seekg(3);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "tent");
  EXPECT_THROW(read_whole_file(path, 6), Error);
}

TEST_F(ReadFile, OtherKindsOfFilesAreRefused) {
  ASSERT_EQ(mkfifo((temp / "fifo").c_str(), 0600), 0);
  expect_refused(temp / "fifo", "is a FIFO");  // without a wait for a writer
  expect_refused(temp.path(), "is a folder");
  expect_refused("/dev/zero", "is a device");
  expect_refused(temp / "missing", "No such file");
  expect_refused(temp / std::string(300, 'x'), "name too long");
  fs::create_symlink("loop", temp / "loop");
  expect_refused(temp / "loop", "symbolic links");

  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = temp / "socket";
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  const OpenFile socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_refused(path, "is a socket");
}

}  // namespace
}  // namespace ddp
