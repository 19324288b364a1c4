#include "comm/broadcast_host.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace ddp {

// An all_reduce in which all ranks but rank 0 contribute zeros. A double holds each 32-bit half exactly.
void broadcast_host(Communicator& communicator, std::span<int64_t> values) {
  std::vector<double> halves(2 * values.size());
  if (communicator.rank() == 0)
    for (size_t i = 0; i < values.size(); ++i) {
      const auto bits = std::bit_cast<uint64_t>(values[i]);
      halves[2 * i] = static_cast<double>(bits >> 32);
      halves[2 * i + 1] = static_cast<double>(bits & 0xffffffff);
    }
  communicator.all_reduce_host(halves);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] =
        std::bit_cast<int64_t>(static_cast<uint64_t>(halves[2 * i]) << 32 | static_cast<uint64_t>(halves[2 * i + 1]));
}

void broadcast_host(Communicator& communicator, std::span<double> values) {
  if (communicator.rank() != 0) std::ranges::fill(values, 0);
  communicator.all_reduce_host(values);
}

void broadcast_host(Communicator& communicator, std::vector<float>& values) {
  int64_t count = std::ssize(values);
  broadcast_host(communicator, {&count, 1});
  values.resize(count);
  communicator.wait(communicator.broadcast(DeviceSpan::of(values), 0));
}

void broadcast_host(Communicator& communicator, std::string& text) {
  int64_t length = std::ssize(text);
  broadcast_host(communicator, {&length, 1});
  text.resize(length);
  if (length == 0) return;
  std::vector<float> words((text.size() + sizeof(float) - 1) / sizeof(float));
  std::memcpy(words.data(), text.data(), text.size());
  broadcast_host(communicator, words);
  std::memcpy(text.data(), words.data(), length);
}

}  // namespace ddp
