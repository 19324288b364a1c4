// The owner of one of NCCL's communicators. It is non-blocking, as only those can be aborted: a call may return before
// it is done, and nothing else may be asked of the communicator until it is.
#pragma once

#include <nccl.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace ddp {

// How long a rank that ends waits for the GPU and for the others before it goes without them.
constexpr std::chrono::seconds kGoodbye{5};

// NCCL's words for a failed call, or nullopt where it did not fail.
std::optional<std::string> describe_failure(ncclResult_t result, ncclComm_t comm);

class Nccl {
 public:
  using Call = std::function<ncclResult_t(ncclComm_t)>;

  // On the current GPU, by all ranks at once, with the id that rank 0 got. `deadline` holds for this and for each call.
  // Throws Error(Exit::communication).
  Nccl(const ncclUniqueId& id, int rank, int size, std::chrono::seconds deadline);
  ~Nccl() { abort(); }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  // Makes a call and comes back when NCCL is done with it; a collective is in its stream then. `what` is for the
  // message: "NCCL: a sum: ...". Throws Error(Exit::communication).
  void run(const char* what, const Call& call) { run(what, call, deadline_); }

  // Why no collective may ever be done again. From any thread while this exists; nullopt too while a call is being
  // made.
  std::optional<std::string> failure() const;

  // End the communicator: in order, when its streams are idle, its memory deregistered and its graphs destroyed; or at
  // once. Neither waits for much longer than kGoodbye, after which what is left is left to the end of the process.
  void leave() noexcept;
  void abort() noexcept;

 private:
  void run(const char* what, const Call& call, std::chrono::nanoseconds deadline);
  ncclResult_t ask() const;  // with the mutex held
  ncclResult_t state() const;
  void end(ncclResult_t (*how)(ncclComm_t)) noexcept;

  const std::chrono::seconds deadline_;
  const int size_;
  mutable std::mutex mutex_;  // NCCL lets no two threads ask for the state of a communicator at once
  ncclComm_t comm_ = nullptr;
};

}  // namespace ddp
