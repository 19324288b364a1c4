// Our own allreduce in a ring, as a state machine: it never blocks.
//
// N ranks sit in a ring; each sends only to the next and receives only from the previous. The data have N chunks, and
// each chunk consists of pieces; G is the largest number of pieces in a chunk, and a chunk with fewer ends with empty
// pieces, which are not sent. There are 2(N-1) steps; in step s rank r sends chunk r-1-s and receives chunk r-2-s
// (modulo N). In the first N-1 steps, the reduce-scatter, it adds what it receives to its own values of that chunk, so
// that after them chunk r on rank r is the whole sum. In the last N-1 steps, the all-gather, it stores what it receives
// in place.
//
// Item i is piece i mod G of step i / G, and items go over each link in order. What is sent in a step is what was
// received in the step before, so item i may be sent when item i-G has been received: while one piece is being added,
// others travel, which is the pipeline. An item of the all-gather is received in place, over the values that were sent
// as item i-(N-1)G, so it waits until those have left.
//
// A rank stands for its host. In the first step of a collective, the ring collects the value of its host just before it
// sends a piece; in the N-1 steps that add, just before it adds to a piece. It spreads a final piece over the host at
// once.
//
// Each chunk is added up once, along one path, from rank c+1 to rank c for chunk c, and its sum is copied to the
// others: all ranks get the same bits. With chunks of equal size each rank sends 2(N-1)/N of the data, which no
// allreduce can undercut.
#pragma once

#include "comm/collective.h"
#include "comm/mpi/message_window.h"
#include "comm/shm/host_link.h"

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace ddp {

class Ring {
 public:
  explicit Ring(MPI_Comm comm);

  // Sum, reduce_scatter (the first half) or all_gather (the second) of `data`, in one chunk for each rank. All ranks
  // give the same tag; collectives that are under way at the same time have different ones. `data`, `pieces` and `host`
  // must stay until advance() has returned true.
  void start(std::byte* data, const Pieces& pieces, Collective::Kind kind, DType dtype, HostPieces& host, int tag);

  bool advance();                                         // true when done
  int64_t messages() const { return received_ + sent_; }  // complete ones; grows while the ring moves
  void abandon();                                         // leaves outstanding messages their memory

 private:
  static constexpr int kMessages = MessageWindow::kMessages;

  Piece piece(int64_t item, int chunk_of_step_0) const;
  Piece outgoing(int64_t item) const { return piece(item, rank_ - 1); }
  Piece incoming(int64_t item) const { return piece(item, rank_ - 2); }
  bool reduces(int64_t item) const { return item < (size_ - 1) * pieces_of_chunk_; }
  bool is_final(int64_t received) const { return received >= (size_ - 2) * pieces_of_chunk_; }
  std::byte* scratch(int64_t item) { return scratch_.data() + item % kMessages * largest_; }

  void receive_more();
  void send_more();
  void finish_received();
  void finish_sent();

  MPI_Comm comm_;
  int rank_ = 0, size_ = 0, tag_ = 0;
  std::byte* data_ = nullptr;
  const Pieces* pieces_ = nullptr;
  HostPieces* host_ = nullptr;
  DType dtype_ = DType::f32;
  int64_t pieces_of_chunk_ = 0;           // G
  int64_t largest_ = 0;                   // bytes of the largest piece
  int64_t first_ = 0, end_ = 0;           // the items of this collective
  int64_t receiving_ = 0, received_ = 0;  // items before these are posted, done
  int64_t sending_ = 0, sent_ = 0;
  MessageWindow window_;
  std::vector<std::byte> scratch_;  // grows to the largest use and stays
};

}  // namespace ddp
