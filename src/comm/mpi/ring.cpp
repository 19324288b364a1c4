#include "comm/mpi/ring.h"

#include "comm/add.h"
#include "comm/mpi/check.h"
#include "core/error.h"

#include <algorithm>
#include <new>
#include <utility>

namespace ddp {
Ring::Ring(MPI_Comm comm) : comm_(comm) {
  DDP_MPI(MPI_Comm_rank(comm, &rank_));
  DDP_MPI(MPI_Comm_size(comm, &size_));
}

void Ring::start(std::byte* data, const Pieces& pieces, Collective::Kind kind, DType dtype, HostPieces& host, int tag) {
  DDP_EXPECT(pieces.hosts() == size_);
  data_ = data;
  pieces_ = &pieces;
  host_ = &host;
  dtype_ = dtype;
  tag_ = tag;
  pieces_of_chunk_ = pieces.longest();
  largest_ = pieces.largest();
  const int64_t half = (size_ - 1) * pieces_of_chunk_;
  first_ = kind == Collective::Kind::all_gather ? half : 0;
  end_ = kind == Collective::Kind::reduce_scatter ? half : 2 * half;
  receiving_ = received_ = sending_ = sent_ = first_;
  if (first_ < half && std::ssize(scratch_) < kMessages * largest_) scratch_.resize(kMessages * largest_);
  receive_more();
  send_more();
}

bool Ring::advance() {
  window_.test();
  finish_received();
  finish_sent();
  receive_more();
  send_more();
  return received_ == end_ && sent_ == end_;
}

Piece Ring::piece(int64_t item, int chunk_of_step_0) const {
  const int64_t step = item / pieces_of_chunk_, index = item % pieces_of_chunk_;
  const auto& chunk = pieces_->chunk(static_cast<int>((chunk_of_step_0 - step + 3 * size_) % size_));
  return index < std::ssize(chunk) ? chunk[index] : Piece{};
}

void Ring::receive_more() {
  const int previous = (rank_ + size_ - 1) % size_;
  for (; receiving_ < std::min(end_, received_ + kMessages); ++receiving_) {
    const Piece piece = incoming(receiving_);
    if (!reduces(receiving_) && sent_ <= receiving_ - (size_ - 1) * pieces_of_chunk_) return;
    std::byte* const to = reduces(receiving_) ? scratch(receiving_) : data_ + piece.begin;
    if (piece.bytes > 0)
      DDP_MPI(
          MPI_Irecv(to, static_cast<int>(piece.bytes), MPI_BYTE, previous, tag_, comm_, &window_.receive(receiving_)));
  }
}

void Ring::send_more() {
  const int next = (rank_ + 1) % size_;
  for (; sending_ < std::min(end_, sent_ + kMessages); ++sending_) {
    const bool is_own = sending_ < first_ + pieces_of_chunk_;
    if (!is_own && received_ <= sending_ - pieces_of_chunk_) return;
    const Piece piece = outgoing(sending_);
    if (is_own) {
      host_->collect(piece);
      if (!reduces(sending_)) host_->spread(piece);  // an all_gather begins with final pieces
    }
    if (piece.bytes > 0)
      DDP_MPI(MPI_Isend(data_ + piece.begin, static_cast<int>(piece.bytes), MPI_BYTE, next, tag_, comm_,
                        &window_.send(sending_)));
  }
}

void Ring::finish_received() {
  for (; received_ < receiving_ && window_.receive(received_) == MPI_REQUEST_NULL; ++received_) {
    const Piece piece = incoming(received_);
    if (reduces(received_)) {
      host_->collect(piece);
      add(data_ + piece.begin, scratch(received_), piece.bytes / static_cast<int64_t>(size_of(dtype_)), dtype_);
    }
    if (is_final(received_)) host_->spread(piece);
  }
}

void Ring::finish_sent() {
  while (sent_ < sending_ && window_.send(sent_) == MPI_REQUEST_NULL) ++sent_;
}

void Ring::abandon() { new std::vector(std::move(scratch_)); }

}  // namespace ddp
