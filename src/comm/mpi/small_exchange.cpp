#include "comm/mpi/small_exchange.h"

#include "comm/add.h"
#include "comm/mpi/check.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ddp {

SmallExchange::SmallExchange(MPI_Comm comm) : comm_(comm) {
  DDP_MPI(MPI_Comm_rank(comm, &rank_));
  DDP_MPI(MPI_Comm_size(comm, &size_));
}

void SmallExchange::start(std::byte* data, int64_t offset, int64_t bytes, const BlockRule& rule, DType dtype, int tag) {
  data_ = data;
  offset_ = offset;
  bytes_ = bytes;
  rule_ = rule;
  dtype_ = dtype;
  tag_ = tag;
  distance_ = 1;
  if (bytes == 0) return;
  if (std::ssize(entries_) < size_ * bytes) entries_.resize(size_ * bytes);
  std::memcpy(entry(0), data, bytes);
  exchange();
}

void SmallExchange::exchange() {
  if (distance_ >= size_) return;
  const auto bytes = static_cast<int>(std::min(distance_, size_ - distance_) * bytes_);
  DDP_MPI(MPI_Irecv(entry(distance_), bytes, MPI_BYTE, (rank_ + distance_) % size_, tag_, comm_, &requests_[0]));
  DDP_MPI(MPI_Isend(entry(0), bytes, MPI_BYTE, (rank_ - distance_ + size_) % size_, tag_, comm_, &requests_[1]));
}

bool SmallExchange::advance() {
  for (; bytes_ > 0 && distance_ < size_; exchange()) {
    int done = 0;
    DDP_MPI(MPI_Testall(2, requests_.data(), &done, MPI_STATUSES_IGNORE));
    if (!done) return false;
    messages_ += 2;
    distance_ *= 2;
  }
  add_up();
  return true;
}

void SmallExchange::add_up() {
  for (int64_t at = 0; at < bytes_;) {
    const int64_t block = (offset_ + at) / rule_.bytes;
    const int64_t end = std::min(bytes_, (block + 1) * rule_.bytes - offset_);
    const auto term = [&](int number) {  // counted from the first in the order of the ring
      return entry((rule_.chunk_of(block) + 1 + number - rank_ + size_) % size_) + at;
    };
    std::memcpy(data_ + at, term(0), end - at);
    for (int number = 1; number < size_; ++number)
      add(data_ + at, term(number), (end - at) / static_cast<int64_t>(size_of(dtype_)), dtype_);
    at = end;
  }
}

void SmallExchange::abandon() { new std::vector(std::move(entries_)); }

}  // namespace ddp
