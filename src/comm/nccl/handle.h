// Owner of an NCCL communicator. The communicator is non-blocking, because only such a communicator can be aborted: an
// NCCL call may return before it is done, and no other call may be made on the communicator until then.
#pragma once

#include <nccl.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace ddp {

// How long a rank that ends waits for its GPU and for the other ranks.
constexpr std::chrono::seconds kShutdownTimeout{5};

// NCCL's text for a failed call; nullopt if the call succeeded or is in progress.
std::optional<std::string> describe_failure(ncclResult_t result, ncclComm_t comm);

class Nccl {
 public:
  using Call = std::function<ncclResult_t(ncclComm_t)>;

  // Creates the communicator on the current GPU. Collective; `id` is the id that rank 0 created. `deadline` limits the
  // constructor and each call. Throws Error(Exit::communication).
  Nccl(const ncclUniqueId& id, int rank, int size, std::chrono::seconds deadline);
  ~Nccl() { abort(); }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  // Makes an NCCL call and returns when NCCL is done with it; a collective is then issued to its stream, not complete.
  // `what` names the call in messages: "NCCL: all-reduce: ...". Throws Error(Exit::communication).
  void run(const char* what, const Call& call) { run(what, call, deadline_); }

  // Why no collective can complete any more. nullopt without a failure, while another thread makes a call, and after
  // leave() or abort(). Any thread may call this.
  std::optional<std::string> failure() const;

  // leave() finalises and destroys the communicator; its streams must be idle, its memory deregistered and its graphs
  // destroyed. abort() destroys the communicator at once. Neither waits much longer than kShutdownTimeout; after that
  // the end of the process frees the rest.
  void leave() noexcept;
  void abort() noexcept;

 private:
  void run(const char* what, const Call& call, std::chrono::nanoseconds deadline);
  ncclResult_t query_state() const;  // needs the mutex
  ncclResult_t state() const;
  void destroy(ncclResult_t (*how)(ncclComm_t)) noexcept;

  const std::chrono::seconds deadline_;
  const int size_;
  mutable std::mutex mutex_;  // NCCL does not allow two threads to query a communicator's state at once
  ncclComm_t comm_ = nullptr;
};

}  // namespace ddp
