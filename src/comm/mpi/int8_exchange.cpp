#include "comm/mpi/int8_exchange.h"

#include "comm/int8.h"
#include "comm/mpi/check.h"
#include "core/error.h"

#include <algorithm>
#include <new>
#include <utility>

namespace ddp {

Int8Exchange::Int8Exchange(MPI_Comm comm) : comm_(comm) {
  DDP_MPI(MPI_Comm_rank(comm, &rank_));
  DDP_MPI(MPI_Comm_size(comm, &size_));
}

void Int8Exchange::start(std::byte* data, const Residual& residual, const Pieces& pieces, Collective::Kind kind,
                         HostPieces& host, int tag) {
  DDP_EXPECT(pieces.hosts() == size_ && size_ > 1 && kind != Collective::Kind::all_gather);
  data_ = data;
  residual_ = residual;
  pieces_ = &pieces;
  host_ = &host;
  tag_ = tag;
  pieces_of_chunk_ = pieces.longest();
  largest_ = int8_bytes(pieces.largest() / static_cast<int64_t>(sizeof(float)));
  half_ = (size_ - 1) * pieces_of_chunk_;
  end_ = kind == Collective::Kind::reduce_scatter ? half_ : 2 * half_;
  receiving_ = received_ = sending_ = sent_ = 0;
  const int64_t needed = (2 * kMessages + pieces_of_chunk_) * largest_;
  if (std::ssize(scratch_) < needed) scratch_.resize(needed);
  receive_more();
  send_more();
}

bool Int8Exchange::advance() {
  window_.test();
  finish_received();
  finish_sent();
  receive_more();
  send_more();
  return received_ == end_ && sent_ == end_;
}

Piece Int8Exchange::piece(int chunk, int64_t item) const {
  const auto& pieces = pieces_->chunk(chunk);
  const int64_t index = item % pieces_of_chunk_;
  return index < std::ssize(pieces) ? pieces[index] : Piece{};
}

// A rounded sum goes to all other ranks, so it stays to the end.
std::byte* Int8Exchange::sent_memory(int64_t item) {
  const int64_t place = adds(item) ? kMessages + item % kMessages : 2 * kMessages + item % pieces_of_chunk_;
  return scratch_.data() + place * largest_;
}

void Int8Exchange::round(const Piece& piece, std::byte* to) {
  to_int8(values(piece), residual_.from(piece.begin / static_cast<int64_t>(sizeof(float))), count(piece), to);
}

void Int8Exchange::receive_more() {
  for (; receiving_ < std::min(end_, received_ + kMessages); ++receiving_)
    if (const Piece piece = incoming(receiving_); piece.bytes > 0)
      DDP_MPI(MPI_Irecv(received_memory(receiving_), static_cast<int>(int8_bytes(count(piece))), MPI_BYTE,
                        sender(receiving_), tag_, comm_, &window_.receive(receiving_)));
}

void Int8Exchange::send_more() {
  for (; sending_ < std::min(end_, sent_ + kMessages); ++sending_) {
    // The last term of a sum is an item of the last step that adds.
    if (!adds(sending_) && received_ <= half_ - pieces_of_chunk_ + sending_ % pieces_of_chunk_) return;
    const Piece piece = outgoing(sending_);
    std::byte* const message = sent_memory(sending_);
    if (adds(sending_)) {
      host_->collect(piece);
      round(piece, message);
    }
    if (piece.bytes > 0)
      DDP_MPI(MPI_Isend(message, static_cast<int>(int8_bytes(count(piece))), MPI_BYTE, receiver(sending_), tag_, comm_,
                        &window_.send(sending_)));
  }
}

void Int8Exchange::finish_received() {
  for (; received_ < receiving_ && window_.receive(received_) == MPI_REQUEST_NULL; ++received_) {
    const Piece piece = incoming(received_);
    if (!adds(received_)) {
      from_int8(received_memory(received_), count(piece), values(piece));
      host_->spread(piece);
      continue;
    }
    if (received_ < pieces_of_chunk_) host_->collect(piece);
    add_int8(received_memory(received_), count(piece), values(piece));
    if (received_ >= half_ - pieces_of_chunk_) finish_sum(received_);
  }
}

// All ranks get the values of the rounded sum, this one too.
void Int8Exchange::finish_sum(int64_t item) {
  const Piece piece = incoming(item);
  if (end_ > half_) {
    std::byte* const message = sent_memory(half_ + item);
    round(piece, message);
    from_int8(message, count(piece), values(piece));
  }
  host_->spread(piece);
}

void Int8Exchange::finish_sent() {
  while (sent_ < sending_ && window_.send(sent_) == MPI_REQUEST_NULL) ++sent_;
}

void Int8Exchange::abandon() { new std::vector(std::move(scratch_)); }

}  // namespace ddp
