// An allreduce of little data between N ranks in log2(N) messages, as a state machine: it never blocks.
//
// It gathers all ranks' data on every rank along a tree for each rank, after Bruck, and each rank adds them up. A rank
// keeps a list that begins with its own data; entry j holds the data of rank r+j (modulo N). In the step of distance d
// = 1, 2, 4, ... it sends the first entries of its list, at most d, to rank r-d, and appends what rank r+d sends. After
// the last step the list is complete.
//
// The terms of a byte are added in the order of the ring (comm/mpi/ring.h): from rank c+1 to rank c, where c is the
// chunk of its block. So both give the same bits, and the size of a message does not change a sum.
#pragma once

#include "comm/collective.h"
#include "comm/shm/pieces.h"

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddp {

class SmallExchange {
 public:
  explicit SmallExchange(MPI_Comm comm);

  // Sums `data` over the ranks. `offset`: see Pieces::cut_blocks(). Tags as in Ring::start().
  void start(std::byte* data, int64_t offset, int64_t bytes, const BlockRule& rule, DType dtype, int tag);

  bool advance();  // true when done
  int64_t messages() const { return messages_; }
  void abandon();

 private:
  void exchange();
  void add_up();
  std::byte* entry(int64_t number) { return entries_.data() + number * bytes_; }

  MPI_Comm comm_;
  int rank_ = 0, size_ = 0, tag_ = 0;
  std::byte* data_ = nullptr;
  int64_t offset_ = 0, bytes_ = 0;
  BlockRule rule_;
  DType dtype_ = DType::f32;
  int distance_ = 0;
  std::array<MPI_Request, 2> requests_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};  // the receive, the send
  int64_t messages_ = 0;
  std::vector<std::byte> entries_;  // grows to the largest use and stays
};

}  // namespace ddp
