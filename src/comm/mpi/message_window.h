// The requests of an exchange whose messages are numbered items, in order in each direction. At most kMessages are
// under way in each. Not thread-safe.
#pragma once

#include "comm/mpi/check.h"

#include <mpi.h>

#include <array>
#include <cstdint>

namespace ddp {

class MessageWindow {
 public:
  static constexpr int kMessages = 16;

  MessageWindow() { requests_.fill(MPI_REQUEST_NULL); }

  // MPI_REQUEST_NULL: done, or an empty piece.
  MPI_Request& receive(int64_t item) { return requests_[item % kMessages]; }
  MPI_Request& send(int64_t item) { return requests_[kMessages + item % kMessages]; }

  // One call for all messages: each call of MPI asks the kernel for the state of its sockets.
  void test() {
    std::array<int, 2 * kMessages> completed;
    int count = 0;
    DDP_MPI(MPI_Testsome(2 * kMessages, requests_.data(), &count, completed.data(), MPI_STATUSES_IGNORE));
  }

 private:
  std::array<MPI_Request, 2 * kMessages> requests_;
};

}  // namespace ddp
