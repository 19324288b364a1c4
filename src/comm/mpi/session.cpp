#include "comm/mpi/session.h"

#include "comm/heartbeat/heartbeat_slot.h"
#include "comm/mpi/admitted_hosts.h"
#include "comm/mpi/check.h"
#include "comm/mpi/communicator.h"
#include "comm/mpi/heartbeat_table.h"
#include "comm/mpi/launcher.h"
#include "comm/mpi/mpirun.h"
#include "comm/mpi/progress_engine.h"
#include "comm/mpi/srun_barrier.h"
#include "comm/mpi/startup_watchdog.h"
#include "core/host_name.h"
#include "core/stopwatch.h"

#include <fmt/ranges.h>
#include <mpi.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <sstream>
#include <thread>
#include <utility>

namespace ddp {
namespace {

// Initialises and finalises MPI. Does not finalise with collectives outstanding: MPI_Finalize would wait for ever.
struct MpiLibrary {
  MpiLibrary(int& argc, char**& argv) {
    const Environment environment = environment_of_process();
    require_pmi(environment);
    // By default Open MPI copies between processes of a host with ptrace rights. Containers forbid that; in virtual
    // machines it is slow: shared memory sums half a megabyte four times faster. The user's own setting wins.
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    int provided = 0;
    DDP_MPI(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    const auto expected = expected_world(environment);
    if (expected && expected->launcher == "srun") wait_for_ranks_of_srun();
    if (provided == MPI_THREAD_MULTIPLE) return;
    MPI_Finalize();
    fail(Exit::communication,
         "this MPI library does not provide MPI_THREAD_MULTIPLE: use one that does, such as Open MPI 4");
  }
  // MPI_Finalize waits 2 s for the launcher's answer. A launcher that got no processor for so long would see this
  // process end before it reads the process's last message, and would end a good run with exit code 1; so give it more
  // time.
  ~MpiLibrary() {
    if (abandoned) return;
    const Stopwatch finalising;
    MPI_Finalize();
    if (finalising.seconds() > 1.9) std::this_thread::sleep_for(std::chrono::seconds(5));
  }
  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;
  bool abandoned = false;
};

// Ends this process after two seconds even if all other threads hang; first ends the parent `with`. If no thread can be
// started, SIGALRM ends this process.
void exit_after_delay(Exit code, Parent with = {}) noexcept {
  constexpr int kDelay = 2;  // in s
  try {
    std::thread([code, with, at = std::chrono::steady_clock::now() + std::chrono::seconds(kDelay)] {
      end_parent(with);
      std::this_thread::sleep_until(at);
      _exit(static_cast<int>(code));
    }).detach();
  } catch (const std::exception&) {
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(kDelay);
  }
}

// With fewer files Open MPI fails with messages that do not name the limit, or hangs.
void require_files() {
  constexpr rlim_t kLeast = 64;
  rlimit limit{};
  require(getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kLeast, Exit::device,
          "this process may open {} files, but MPI and the data need {}: raise the limit (ulimit -n)", limit.rlim_cur,
          kLeast);
}

// Whether there is no news of another host. False if the leader of this host is stopped: then news of no host comes in,
// and no other host is at fault.
bool cut_off_from_a_host(const HeartbeatTable& heartbeats) {
  int leader = 0;
  while (heartbeats.host_of(leader) != heartbeats.host_of(heartbeats.rank())) ++leader;
  const bool stopped = leader != heartbeats.rank() && !heartbeats.left(leader) &&
                       steady_ns() - heartbeats.read(leader).alive_ns > kSilent_ns;
  if (stopped) return false;
  for (int r = 0; r < heartbeats.size(); ++r)
    if (!heartbeats.left(r) && steady_ns() - heartbeats.heard_ns(r) > kSilent_ns) return true;
  return false;
}

}  // namespace

struct MpiSession::State {
  State(int& argc, char**& argv) : startup_watchdog(std::in_place, environment_of_process()), library(argc, argv) {
    DDP_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    DDP_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    DDP_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    require_expected_ranks(environment_of_process(), size);
    MPI_Comm host = MPI_COMM_NULL;
    DDP_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host));
    DDP_MPI(MPI_Comm_rank(host, &local_rank));
    DDP_MPI(MPI_Comm_size(host, &local_size));
    first_of_host = rank;
    DDP_MPI(MPI_Bcast(&first_of_host, 1, MPI_INT, 0, host));
    DDP_MPI(MPI_Comm_free(&host));
    heartbeats = make_mpi_heartbeat_table(MPI_COMM_WORLD, first_of_host, host_name(), engine);
    startup_watchdog.reset();
  }
  ~State() { library.abandoned = engine.abandoned(); }

  // Both have threads, so they come before MPI starts: a rank that cannot start a thread would wait in MPI_Finalize for
  // the other ranks.
  std::optional<StartupWatchdog> startup_watchdog;
  ProgressEngine engine;
  MpiLibrary library;
  int rank = 0, size = 0, local_rank = 0, local_size = 0, first_of_host = 0;
  std::unique_ptr<HeartbeatTable> heartbeats;
  std::mutex abort_mutex;
  std::function<void(std::string_view why)> on_abort;
};

std::string describe_mpi() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  DDP_MPI(MPI_Get_library_version(text.data(), &length));
  const std::string whole(text.data(), static_cast<size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

MpiSession::MpiSession(int& argc, char**& argv) {
  require_files();
  state_ = std::make_unique<State>(argc, argv);
  if (size() == 1) return;
  std::vector<std::string> hosts;
  for (const std::string& addresses : gather(fmt::format("{}", fmt::join(addresses_of_interfaces(), " ")))) {
    std::istringstream list(addresses);
    for (std::string address; list >> address;) hosts.push_back(address);
  }
  admit_only(hosts);
}
MpiSession::~MpiSession() = default;

int MpiSession::rank() const { return state_->rank; }
int MpiSession::size() const { return state_->size; }
int MpiSession::local_rank() const { return state_->local_rank; }
int MpiSession::local_size() const { return state_->local_size; }

std::string MpiSession::host() const { return host_name(); }

std::unique_ptr<Communicator> MpiSession::world(Allreduce allreduce, std::optional<int> host) {
  return make_mpi_communicator(MPI_COMM_WORLD, state_->engine, allreduce, host.value_or(state_->first_of_host));
}

HeartbeatTable& MpiSession::heartbeats() { return *state_->heartbeats; }

// The lowest failed rank broadcasts its code and text; every rank compares them with its own.
std::optional<Error> MpiSession::agree(const std::optional<Error>& mine) {
  const auto finish = [](MPI_Request request) { complete(request); };
  MPI_Request request;
  int first = mine ? state_->rank : state_->size;
  DDP_MPI(MPI_Iallreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &request));
  finish(request);
  if (first == state_->size) return std::nullopt;

  std::array<int, 2> head{};
  if (mine) head = {static_cast<int>(mine->code()), static_cast<int>(std::strlen(mine->what()))};
  const std::array<int, 2> my_head = head;
  DDP_MPI(MPI_Ibcast(head.data(), 2, MPI_INT, first, MPI_COMM_WORLD, &request));
  finish(request);
  std::string text = mine && my_head == head ? mine->what() : "";
  const std::string my_text = text;
  text.resize(head[1]);
  DDP_MPI(MPI_Ibcast(text.data(), head[1], MPI_CHAR, first, MPI_COMM_WORLD, &request));
  finish(request);

  int same = mine && my_head == head && my_text == text;
  DDP_MPI(MPI_Iallreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD, &request));
  finish(request);
  return Error(static_cast<Exit>(head[0]), same ? text : fmt::format("rank {}: {}", first, text));
}

std::vector<std::string> MpiSession::gather(const std::string& mine) {
  std::vector<int> lengths(size()), offsets(size());
  const auto length = static_cast<int>(mine.size());
  DDP_MPI(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD));
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  std::string all(offsets.back() + lengths.back(), '\0');
  DDP_MPI(MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR,
                         MPI_COMM_WORLD));
  std::vector<std::string> texts;
  for (int r = 0; r < size(); ++r) texts.push_back(all.substr(offsets[r], lengths[r]));
  return texts;
}

void MpiSession::on_abort(std::function<void(std::string_view)> callback) {
  const std::lock_guard lock(state_->abort_mutex);
  state_->on_abort = std::move(callback);
}

void MpiSession::end(Exit code, std::string_view why) {
  const Parent parent = cut_off_from_a_host(*state_->heartbeats) ? parent_of_process() : Parent{};
  exit_after_delay(code, parent);
  state_->heartbeats->leave();
  try {
    const std::lock_guard lock(state_->abort_mutex);
    if (state_->on_abort) state_->on_abort(why);
  } catch (const std::exception&) {  // no memory: the job ends all the same
  }
  while (parent.kind != Parent::Kind::other)
    std::this_thread::sleep_for(std::chrono::seconds(1));  // exit_after_delay ends us
  abort(code);
}

void MpiSession::abort(Exit code) {
  exit_after_delay(code);
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  if (initialised && !finalised) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  _exit(static_cast<int>(code));
}

}  // namespace ddp
