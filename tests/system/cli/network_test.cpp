// What a run opens on the network.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/job.h"

#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

// The inodes of the sockets that listen in the network of this process.
std::set<std::string> listening_sockets(pid_t pid) {
  std::set<std::string> inodes;
  for (const char* table : {"tcp", "tcp6"}) {
    std::ifstream file(fmt::format("/proc/{}/net/{}", pid, table));
    std::string line;
    std::getline(file, line);  // the names of the columns
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::vector<std::string> row(10);
      for (std::string& field : row) fields >> field;
      if (row[3] == "0A") inodes.insert(row[9]);
    }
  }
  return inodes;
}

int open_ports(pid_t pid) {
  const auto listening = listening_sockets(pid);
  int ports = 0;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), gone)) {
    const std::string target = fs::read_symlink(entry.path(), gone).string(), start = "socket:[";
    if (target.starts_with(start) && listening.contains(target.substr(start.size(), target.size() - start.size() - 1)))
      ++ports;
  }
  return ports;
}

TEST(Network, RanksOfOneHostListenOnNoPort) {
  const TempFolder folder;
  few_images(folder / "images", 512, 10);
  const std::string options = fmt::format(
      "--data-path {0}/images --batch-size 16 --eval-every 0 --save-every never --print-freq 1 --inject "
      "kind=slow,rank=0 --output-dir {0}/run",
      folder.path().string());
  Job job(folder, 2, options);
  ASSERT_TRUE(job.says("step 3/32"));
  EXPECT_GT(open_ports(job.mpirun()), 0);  // the test can see ports
  for (const int rank : {0, 1}) EXPECT_EQ(open_ports(job.rank(rank)), 0);
  ::kill(job.rank(0), SIGTERM);
  EXPECT_EQ(job.end(), static_cast<int>(Exit::stopped)) << job.output();
}

}  // namespace
}  // namespace ddp::testing
