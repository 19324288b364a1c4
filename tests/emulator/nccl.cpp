#include "nccl.h"

#include "tests/emulator/nccl_world.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace {

using namespace fake_nccl;

struct Process {
  std::mutex mutex;
  int ids = 0;
  std::map<std::string, std::weak_ptr<World>> worlds;
  std::map<int, ncclResult_t> failing;
  bool never = false;
  std::set<ncclComm_t> alive;
};
Process& process() {  // NCCL's C interface has no handle for it
  static Process process;
  return process;
}

std::atomic<const char*> last_error = "";

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank = 0;
  std::function<bool()> pending;    // pending operation; returns true when it is done
  std::thread::id issuer;           // thread that issued the pending operation; only it advances the operation
  int queries = 0;                  // status queries before the pending operation runs
  std::shared_ptr<int> references;  // use count: one for each collective in a stream or a graph
  std::set<void*> registered;
  bool finalised = false;
  std::atomic<bool> entered = false;
};

namespace {

// Aborts if two threads use the same rank of a communicator at the same time.
class Enter {
 public:
  explicit Enter(ncclComm_t comm) : comm_(comm) {
    check(comm != nullptr, "no communicator");
    check(!comm->entered.exchange(true), "two threads use a communicator at once");
  }
  ~Enter() { comm_->entered = false; }

 private:
  ncclComm_t comm_;
};

ncclResult_t health(ncclComm_t comm) {
  const std::lock_guard lock(process().mutex);
  if (const auto failing = process().failing.find(comm->rank); failing != process().failing.end()) {
    last_error = "a planted failure";
    return failing->second;
  }
  if (!comm->world->broken()) return ncclSuccess;
  last_error = "a peer is gone";
  return ncclRemoteError;
}

ncclResult_t ready(ncclComm_t comm) {
  if (const ncclResult_t result = health(comm)) return result;
  if (!comm->pending) return ncclSuccess;
  last_error = "Attempt to use communicator before the previous operation returned ncclSuccess";
  return ncclInvalidArgument;
}

ncclResult_t begin(ncclComm_t comm, std::function<bool()> work) {
  comm->pending = std::move(work);
  comm->issuer = std::this_thread::get_id();
  comm->queries = static_cast<int>(emulator::draw() % 4);
  return ncclInProgress;
}

ncclResult_t collective(ncclComm_t comm, cudaStream_t stream, const Call& call) {
  const Enter enter(comm);
  if (const ncclResult_t result = ready(comm)) return result;
  return begin(comm, [=] {
    const auto world = comm->world;
    const int rank = comm->rank;
    emulator::enqueue(stream, [=, reference = comm->references] { world->begin(rank, call); });
    emulator::enqueue(
        stream, [=, reference = comm->references] { world->end(rank); }, [=] { return world->may_end(rank); });
    return true;
  });
}

// A rank has failed, or the ranks wait for one another.
void abort_all() {
  const std::lock_guard lock(process().mutex);
  for (const ncclComm_t comm : process().alive) comm->world->abort();
}

void release(ncclComm_t comm) {
  {
    const std::lock_guard lock(process().mutex);
    process().alive.erase(comm);
  }
  delete comm;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return last_error; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(process().mutex);
  const int n = ++process().ids;
  for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; ++i) id->internal[i] = static_cast<char>(i < 4 ? n >> (8 * i) : i * 37);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  check(config->blocking == 0, "only non-blocking communicators are emulated");
  check(rank >= 0 && rank < ranks, "no such rank");
  emulator::when_blocked(abort_all);
  *comm = new ncclComm;
  const std::lock_guard lock(process().mutex);
  std::weak_ptr<World>& world = process().worlds[std::string(id.internal, sizeof id.internal)];
  (*comm)->world = world.lock();
  if (!(*comm)->world) world = (*comm)->world = std::make_shared<World>(ranks);
  (*comm)->rank = rank;
  (*comm)->references = std::make_shared<int>();
  (*comm)->world->join();
  process().alive.insert(*comm);
  return begin(*comm, [world = (*comm)->world, never = process().never] { return world->complete() && !never; });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  {
    const Enter enter(comm);
    *state = health(comm);
    if (*state != ncclSuccess || !comm->pending) return ncclSuccess;
    if (comm->issuer == std::this_thread::get_id() && --comm->queries <= 0 && comm->pending()) comm->pending = nullptr;
    *state = comm->pending ? ncclInProgress : ncclSuccess;
  }
  if (*state == ncclInProgress) emulator::yield();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const Enter enter(comm);
  if (const ncclResult_t result = ready(comm)) return result;
  check(comm->registered.empty(), "finalised with memory registered");
  comm->finalised = true;
  return begin(comm, [comm] { return comm->references.use_count() == 1; });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  {
    const Enter enter(comm);
    if (const ncclResult_t result = ready(comm)) return result;
    check(comm->finalised, "destroyed before it was finalised");
  }
  release(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  comm->world->abort();
  release(comm);
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, size_t, void** handle) {
  const Enter enter(comm);
  if (const ncclResult_t result = ready(comm)) return result;
  check(comm->registered.insert(memory).second, "memory is registered twice");
  *handle = memory;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  const Enter enter(comm);
  if (const ncclResult_t result = ready(comm)) return result;
  check(comm->registered.erase(handle) == 1, "memory is deregistered that is not registered");
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(comm, stream, {Kind::sum, from, to, count, type, 0});
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t part, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, {Kind::reduce_scatter, from, to, part, type, 0});
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t part, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(comm, stream, {Kind::all_gather, from, to, part, type, 0});
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(comm, stream, {Kind::broadcast, from, to, count, type, root});
}

namespace fake_nccl {

void fail_rank(int rank, ncclResult_t result) {
  const std::lock_guard lock(process().mutex);
  process().failing[rank] = result;
  for (const ncclComm_t comm : process().alive)
    if (comm->rank == rank) comm->world->abort();
}

void never_initialise() {
  const std::lock_guard lock(process().mutex);
  process().never = true;
}

void reset() {
  const std::lock_guard lock(process().mutex);
  process().failing.clear();
  process().never = false;
}

int communicators() {
  const std::lock_guard lock(process().mutex);
  return static_cast<int>(process().alive.size());
}

}  // namespace fake_nccl
