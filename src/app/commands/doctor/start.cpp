#include "app/commands/doctor/start.h"

#include "app/commands/doctor/checks.h"
#include "app/commands/doctor/report.h"
#include "app/commands/doctor/system.h"
#include "app/options/options.h"
#include "core/first_line.h"
#include "core/host_name.h"
#include "core/log.h"
#include "health/abort.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

namespace ddp::doctor {
namespace {

bool given(const char* option, int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [&](const char* argument) { return std::strcmp(argument, option) == 0; });
}

void print(Finding finding, int argc, char** argv) {
  if (finding.found.empty()) finding.found = "MPI was not started";
  if (!given("--doctor", argc, argv)) return print_error(line_of(finding), -1);
  try {
    write_output(stdout, given("--json", argc, argv) ? json_of({finding}, 0) : row_of(finding) + summary_of({finding}),
                 "the report");
  } catch (const std::exception& e) {
    print_exception(e, -1);
  }
}

// Process ids of the stopped ranks that the launcher has started on this host.
std::vector<int> stopped_processes() {
  std::vector<int> pids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string line = first_line(entry.path() / "stat");
    std::string state;
    const size_t end_of_name = line.rfind(')');
    if (end_of_name == std::string::npos) continue;
    int parent = 0;
    std::istringstream(line.substr(end_of_name + 1)) >> state >> parent;
    if (parent == getppid() && state == "T") pids.push_back(std::atoi(entry.path().filename().c_str()));
  }
  return pids;
}

Finding startup_timeout(double seconds) {
  const auto stopped = stopped_processes();
  const std::string what = fmt::format("MPI has not started within {:g} s", seconds);
  if (stopped.empty())
    return for_check("start of MPI",
                     hint("export OMPI_MCA_btl_base_verbose=30 OMPI_MCA_oob_base_verbose=10",
                          fault(Exit::communication, what + ": a rank has not started, or cannot be reached")));
  return for_check(
      "start of MPI",
      fault(Exit::communication, fmt::format("{}: stopped on this host: process {}", what, fmt::join(stopped, ", ")),
            fmt::format("kill -CONT {}", fmt::join(stopped, " "))));
}

// The first rank to end ends the job. The first rank at launch reports at once; after kTurn the first rank of another
// host does; the others report nothing and wait. Sleeps until this rank's turn and returns whether it reports.
bool wait_for_turn(const Environment& environment, const std::optional<ExpectedWorld>& expected) {
  constexpr std::chrono::seconds kTurn{8};  // time that mpirun needs to end a job on other hosts
  const bool reports = !expected || expected->local_rank == 0;
  if (!first_at_launch(environment)) std::this_thread::sleep_for(reports ? kTurn : 2 * kTurn);
  return reports;
}

// kChecks times --step-timeout, or the default. An error in the options is reported later.
std::chrono::milliseconds requested_startup_limit(int argc, char** argv) {
  constexpr std::chrono::milliseconds kLimitOfStart{60'000};
  constexpr int kChecks = 5;  // the start may take as long as this many checks
  try {
    std::optional<std::string> answer;
    const auto timeout = parse_options(argc, argv, answer).step_timeout;
    return timeout ? std::chrono::milliseconds(static_cast<int64_t>(*timeout * 1000 * kChecks)) : kLimitOfStart;
  } catch (const Error&) {
    return kLimitOfStart;
  }
}

}  // namespace

std::optional<Exit> refuse_before_mpi(int argc, char** argv) {
  const Environment environment = environment_of_process();
  const auto expected = expected_world(environment);
  if (!expected || expected->ranks == 1) return std::nullopt;
  const auto problem = check_before_mpi(facts_of_host(environment), environment);
  if (!problem) return std::nullopt;
  if (wait_for_turn(environment, expected)) print(*problem, argc, argv);
  return problem->code;
}

void stay_off_network() {
  const Environment environment = environment_of_process();
  const std::string btl = btl_of_one_host(shared_memory(environment), environment);
  if (!btl.empty()) setenv("OMPI_MCA_btl", btl.c_str(), 0);
}

std::unique_ptr<TimeLimit> startup_limit(int argc, char** argv) {
  if (!given("--doctor", argc, argv)) return nullptr;
  const auto limit = requested_startup_limit(argc, argv);
  return std::make_unique<TimeLimit>(limit, nullptr, [=] {
    const auto expected = expected_world(environment_of_process());
    std::this_thread::sleep_for(report_delay(expected ? expected->rank : 0));
    const Finding finding = startup_timeout(std::chrono::duration<double>(limit).count());
    print(finding, argc, argv);
    _exit(static_cast<int>(finding.code));
  });
}

void report_startup_error(const Error& error, const Signals* signals, int argc, char** argv) {
  const Environment environment = environment_of_process();
  const auto expected = expected_world(environment);
  const bool of_world = error.code() == Exit::world;  // each rank has its own world, so that no rank ends the others
  if (error.code() == Exit::device) {                 // threads, memory or files are short, perhaps for this rank alone
    // mpirun sends SIGTERM one second after another rank has ended, and SIGKILL after two.
    std::this_thread::sleep_for(3 * report_delay(expected ? expected->rank : 0));
    if (signals != nullptr && signals->stop_requested()) return;
  } else if (of_world ? !first_at_launch(environment) : !wait_for_turn(environment, expected)) {
    return;
  }
  if (!given("--doctor", argc, argv)) return print_error(error.what(), -1);
  RankFacts alone;
  alone.host = host_name();
  print(of_world
            ? check_world({&alone, 1}, expected).front()
            : for_check("start of MPI", hint("ompi_info --parsable | grep thread", fault(error.code(), error.what()))),
        argc, argv);
}

}  // namespace ddp::doctor
