// The sum between hosts in int8, as a state machine: it never blocks.
//
// N ranks, one of each host, have a chunk each (comm/shm/pieces.h). First each rank rounds its values of the other
// chunks and sends each chunk to its rank, which adds them to its own values. Then, unless it is a reduce_scatter, each
// rank rounds the sum of its chunk and sends it to all others. So a value is rounded twice, however many hosts there
// are; in a ring it would be rounded at every hop. A rank has one residual for each value: of the first rounding in the
// other chunks, of the second one in its own.
//
// Pieces go as in the ring: item i is piece i mod G of step i / G, and goes over the links in order. There are 2(N-1)
// steps. In step s of the first half, rank r sends of chunk r+1+s to that rank, and adds what rank r-1-s sends of chunk
// r; that is the order of the terms. In the second half, it sends of chunk r to these ranks, and receives of theirs. A
// rank sends a piece of its own chunk after it has received the last term of that piece.
#pragma once

#include "comm/collective.h"
#include "comm/mpi/message_window.h"
#include "comm/shm/host_link.h"

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace ddp {

class Int8Exchange {
 public:
  explicit Int8Exchange(MPI_Comm comm);

  // Sum or reduce_scatter of f32 `data`, in one chunk for each rank. `residual`: of the values of `data`. All ranks
  // give the same tag; collectives that are under way at the same time have different ones. All memory must stay until
  // advance() has returned true.
  void start(std::byte* data, const Residual& residual, const Pieces& pieces, Collective::Kind kind, HostPieces& host,
             int tag);

  bool advance();                                         // true when done
  int64_t messages() const { return received_ + sent_; }  // complete ones; grows while the exchange moves
  void abandon();                                         // leaves outstanding messages their memory

 private:
  static constexpr int kMessages = MessageWindow::kMessages;

  bool adds(int64_t item) const { return item < half_; }
  int distance(int64_t item) const { return static_cast<int>(item / pieces_of_chunk_ % (size_ - 1)) + 1; }
  int receiver(int64_t item) const { return (rank_ + distance(item)) % size_; }
  int sender(int64_t item) const { return (rank_ + size_ - distance(item)) % size_; }
  Piece piece(int chunk, int64_t item) const;
  Piece outgoing(int64_t item) const { return piece(adds(item) ? receiver(item) : rank_, item); }
  Piece incoming(int64_t item) const { return piece(adds(item) ? rank_ : sender(item), item); }
  float* values(const Piece& piece) const { return reinterpret_cast<float*>(data_ + piece.begin); }
  static int64_t count(const Piece& piece) { return piece.bytes / static_cast<int64_t>(sizeof(float)); }

  std::byte* received_memory(int64_t item) { return scratch_.data() + item % kMessages * largest_; }
  std::byte* sent_memory(int64_t item);
  void round(const Piece& piece, std::byte* to);
  void finish_sum(int64_t item);

  void receive_more();
  void send_more();
  void finish_received();
  void finish_sent();

  MPI_Comm comm_;
  int rank_ = 0, size_ = 0, tag_ = 0;
  std::byte* data_ = nullptr;
  Residual residual_;
  const Pieces* pieces_ = nullptr;
  HostPieces* host_ = nullptr;
  int64_t pieces_of_chunk_ = 0;           // G
  int64_t largest_ = 0;                   // bytes of the largest message
  int64_t half_ = 0, end_ = 0;            // items that add, all items
  int64_t receiving_ = 0, received_ = 0;  // items before these are posted, done
  int64_t sending_ = 0, sent_ = 0;
  MessageWindow window_;
  std::vector<std::byte> scratch_;  // messages that come, those that go, the rounded sums of this rank's chunk
};

}  // namespace ddp
