#include "comm/nccl/handle.h"

#include "comm/nccl/poll.h"
#include "core/error.h"

#include <exception>
#include <future>
#include <thread>
#include <utility>

namespace ddp {
namespace {

constexpr const char* kInit = "initialisation";

std::string advice(const char* what, const std::string& text, int size) {
  if (text.find("Duplicate GPU") != text.npos) return "give each rank a GPU of its own, or start fewer ranks";
  if (what == kInit)
    return fmt::format(
        "make sure that all {} ranks run and can reach each other over the network that NCCL uses "
        "(NCCL_SOCKET_IFNAME); NCCL_DEBUG=INFO shows the attempts",
        size);
  return "another rank may have failed first: look for its message; NCCL_DEBUG=INFO shows details";
}

// Runs a call that may never return in a separate thread; detaches the thread after `time`.
void run_with_timeout(std::chrono::seconds time, std::function<void()> call) {
  std::packaged_task<void()> task(std::move(call));
  const std::future<void> done = task.get_future();
  std::thread thread(std::move(task));
  if (done.wait_for(time) == std::future_status::ready)
    thread.join();
  else
    thread.detach();
}

}  // namespace

std::optional<std::string> describe_failure(ncclResult_t result, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) return std::nullopt;
  const std::string last = ncclGetLastError(comm);
  return fmt::format("{}; NCCL's last error: {}", ncclGetErrorString(result), last.empty() ? "none" : last);
}

Nccl::Nccl(const ncclUniqueId& id, int rank, int size, std::chrono::seconds deadline)
    : deadline_(deadline), size_(size) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  try {
    run(kInit, [&](ncclComm_t) { return ncclCommInitRankConfig(&comm_, size, id, rank, &config); });
  } catch (...) {
    abort();
    throw;
  }
}

void Nccl::run(const char* what, const Call& call, std::chrono::nanoseconds deadline) {
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    result = call(comm_);
  }
  const bool done =
      result != ncclInProgress || poll_for(deadline, [&] { return (result = state()) != ncclInProgress; });
  std::string text;
  if (!done)
    text = fmt::format("not done after {:.0f} s", std::chrono::duration<double>(deadline).count());
  else if (const auto failure = describe_failure(result, comm_))
    text = *failure;
  else
    return;
  fail(Exit::communication, "NCCL: {}: {}; {}", what, text, advice(what, text, size_));
}

ncclResult_t Nccl::query_state() const {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  return asked == ncclSuccess ? state : asked;
}

ncclResult_t Nccl::state() const {
  const std::lock_guard lock(mutex_);
  return query_state();
}

std::optional<std::string> Nccl::failure() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !comm_) return std::nullopt;
  return describe_failure(query_state(), comm_);
}

void Nccl::leave() noexcept {
  try {
    run("finalisation", ncclCommFinalize, kShutdownTimeout);
  } catch (const std::exception&) {
    return abort();
  }
  destroy(ncclCommDestroy);
}

void Nccl::abort() noexcept { destroy(ncclCommAbort); }

void Nccl::destroy(ncclResult_t (*how)(ncclComm_t)) noexcept {
  const std::lock_guard lock(mutex_);
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  if (!comm) return;
  try {
    int device = 0;
    DDP_CUDA(cudaGetDevice(&device));
    run_with_timeout(kShutdownTimeout, [=] {
      (void)cudaSetDevice(device);  // a new thread has device 0: NCCL would create a context there
      (void)how(comm);
    });
  } catch (const std::exception&) {  // no thread available: the end of the process frees the communicator
  }
}

}  // namespace ddp
