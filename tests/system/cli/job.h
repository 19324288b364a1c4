// An mpirun job that a test watches, signals and kills. The job has its own process session and its own folder for
// shared memory, so a test finds everything that the job leaves behind.
#pragma once

#include "tests/system/cli/program.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <thread>
#include <vector>

namespace ddp::testing {

// True if the condition becomes true within the limit. Limits leave a margin for loaded machines.
template <class Condition>
bool within(std::chrono::seconds limit, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

class Job {
 public:
  Job(const TempFolder& folder, int ranks, const std::string& arguments)
      : log_(folder / "log"), memory_(folder / "memory"), ranks_(ranks) {
    std::filesystem::create_directories(memory_);
    std::filesystem::remove(log_);
    const std::string command = fmt::format(
        "CUDA_VISIBLE_DEVICES= OMPI_MCA_btl_vader_backing_directory={0} OMPI_MCA_osc_sm_backing_directory={0} "
        "exec {1} -np {2} {3} {4}",
        memory_.string(), DDP_MPIRUN, ranks, DDP_PROGRAM, arguments);
    const std::string log = log_.string();
    mpirun_ = ::fork();
    if (mpirun_ < 0) throw std::runtime_error("fork");
    if (mpirun_ > 0) return;
    ::setsid();
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int nothing = ::open("/dev/null", O_RDONLY);
    if (file < 0 || ::dup2(nothing, 0) < 0 || ::dup2(file, 1) < 0 || ::dup2(file, 2) < 0) ::_exit(127);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  ~Job() {
    if (code_ < 0) ::kill(mpirun_, SIGKILL);
    for (const pid_t pid : processes()) ::kill(pid, SIGKILL);
    if (code_ < 0) ::waitpid(mpirun_, nullptr, 0);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  std::string output() const { return std::filesystem::exists(log_) ? read_file(log_) : ""; }
  bool says(const std::string& part) const {
    return within(std::chrono::seconds(300), [&] { return count(output(), part) > 0; });
  }

  pid_t mpirun() const { return mpirun_; }
  // The process id of rank r. Waits until all ranks have started; throws std::runtime_error after 300 s.
  pid_t rank(int r) const {
    std::map<int, pid_t> found;
    within(std::chrono::seconds(300), [&] {
      found = by_rank();
      return static_cast<int>(found.size()) == ranks_;
    });
    if (!found.contains(r)) throw std::runtime_error(fmt::format("no rank {}: {}", r, output()));
    return found[r];
  }

  // The exit code of mpirun: 128 + signal if a signal ended it, 124 if it still runs after `limit`.
  int end(std::chrono::seconds limit = std::chrono::seconds(300)) {
    int status = 0;
    if (!within(limit, [&] { return ::waitpid(mpirun_, &status, WNOHANG) == mpirun_; })) return 124;
    return code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // True if all processes of the session end within 300 s.
  bool is_gone() const {
    return within(std::chrono::seconds(300), [&] { return processes().empty(); });
  }
  bool left_memory() const { return !std::filesystem::is_empty(memory_); }

 private:
  // Processes of the session. Zombies do not count: killed ranks may become zombies.
  std::vector<pid_t> processes() const {
    std::vector<pid_t> pids;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ifstream file(entry.path() / "stat");
      std::string line, state;
      std::getline(file, line);
      const size_t end_of_name = line.rfind(')');
      if (end_of_name == std::string::npos) continue;  // the process has ended
      std::istringstream fields(line.substr(end_of_name + 1));
      long parent = 0, group = 0, session = 0;
      fields >> state >> parent >> group >> session;
      if (session == mpirun_ && state != "Z" && state != "X") pids.push_back(std::stoi(name));
    }
    return pids;
  }

  std::map<int, pid_t> by_rank() const {
    std::map<int, pid_t> found;
    for (const pid_t pid : processes()) {
      std::ifstream file(fmt::format("/proc/{}/environ", pid));
      const std::string mark = "OMPI_COMM_WORLD_RANK=";
      for (std::string entry; std::getline(file, entry, '\0');)
        if (entry.starts_with(mark)) found[std::stoi(entry.substr(mark.size()))] = pid;
    }
    return found;
  }

  std::filesystem::path log_, memory_;
  int ranks_, code_ = -1;
  pid_t mpirun_ = -1;
};

}  // namespace ddp::testing
