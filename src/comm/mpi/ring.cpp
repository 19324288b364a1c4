#include "comm/mpi/ring.h"

#include "comm/add.h"
#include "comm/mpi/check.h"

#include <algorithm>
#include <new>
#include <utility>

namespace ddp {
namespace {

constexpr int64_t kSegmentBytes = 256 << 10;

}  // namespace

Ring::Ring(MPI_Comm comm) : comm_(comm) {
  DDP_MPI(MPI_Comm_rank(comm, &rank_));
  DDP_MPI(MPI_Comm_size(comm, &size_));
  receives_.fill(MPI_REQUEST_NULL);
  sends_.fill(MPI_REQUEST_NULL);
}

void Ring::start(const Collective& collective, int tag) {
  span_ = collective.span;
  tag_ = tag;
  const auto width = static_cast<int64_t>(size_of(span_.dtype));
  const int64_t largest_chunk = (span_.count + size_ - 1) / size_;
  segments_ = std::max<int64_t>(1, (largest_chunk * width + kSegmentBytes - 1) / kSegmentBytes);
  segment_bytes_ = ((largest_chunk + segments_ - 1) / segments_) * width;
  const int64_t half = (size_ - 1) * segments_;
  first_ = collective.kind == Collective::Kind::all_gather ? half : 0;
  end_ = collective.kind == Collective::Kind::reduce_scatter ? half : 2 * half;
  receiving_ = received_ = sending_ = sent_ = first_;
  if (first_ < half && std::ssize(scratch_) < kMessages * segment_bytes_) scratch_.resize(kMessages * segment_bytes_);
  receive_more();
  send_more();
}

bool Ring::advance() {
  finish_received();
  finish_sent();
  receive_more();
  send_more();
  return received_ == end_ && sent_ == end_;
}

Ring::Segment Ring::segment(int64_t item, int chunk_of_step_0) const {
  const int64_t step = item / segments_, index = item % segments_;
  const int64_t chunk = (chunk_of_step_0 - step + 3 * size_) % size_;
  const int64_t begin = span_.count * chunk / size_, length = span_.count * (chunk + 1) / size_ - begin;
  const int64_t from = length * index / segments_, to = length * (index + 1) / segments_;
  const auto width = static_cast<int64_t>(size_of(span_.dtype));
  return {static_cast<char*>(span_.data) + (begin + from) * width, static_cast<int>((to - from) * width), to - from};
}

void Ring::receive_more() {
  const int previous = (rank_ + size_ - 1) % size_;
  for (; receiving_ < std::min(end_, received_ + kMessages); ++receiving_) {
    const auto [data, bytes, elements] = incoming(receiving_);
    if (!reduces(receiving_) && sent_ <= receiving_ - (size_ - 1) * segments_) return;
    void* const to = reduces(receiving_) ? scratch(receiving_) : data;
    DDP_MPI(MPI_Irecv(to, bytes, MPI_BYTE, previous, tag_, comm_, &receives_[receiving_ % kMessages]));
  }
}

void Ring::send_more() {
  const int next = (rank_ + 1) % size_;
  for (; sending_ < std::min(end_, sent_ + kMessages); ++sending_) {
    if (sending_ >= first_ + segments_ && received_ <= sending_ - segments_) return;
    const auto [data, bytes, elements] = outgoing(sending_);
    DDP_MPI(MPI_Isend(data, bytes, MPI_BYTE, next, tag_, comm_, &sends_[sending_ % kMessages]));
  }
}

void Ring::finish_received() {
  for (const int64_t posted = receiving_; received_ < posted; ++received_) {
    int done = 0;
    DDP_MPI(MPI_Test(&receives_[received_ % kMessages], &done, MPI_STATUS_IGNORE));
    if (!done) return;
    const auto [data, bytes, elements] = incoming(received_);
    if (reduces(received_)) add(data, scratch(received_), elements, span_.dtype);
  }
}

void Ring::finish_sent() {
  for (const int64_t posted = sending_; sent_ < posted; ++sent_) {
    int done = 0;
    DDP_MPI(MPI_Test(&sends_[sent_ % kMessages], &done, MPI_STATUS_IGNORE));
    if (!done) return;
  }
}

void Ring::abandon() { new std::vector<char>(std::move(scratch_)); }

}  // namespace ddp
