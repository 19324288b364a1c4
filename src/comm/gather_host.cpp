#include "comm/gather_host.h"

#include <algorithm>
#include <numeric>

namespace ddp {

// A rank adds its bytes where the other ranks add zeros.
std::vector<std::string> gather_host(Communicator& communicator, const std::string& mine) {
  const int rank = communicator.rank();
  std::vector<double> sizes(communicator.size());
  sizes[rank] = static_cast<double>(mine.size());
  communicator.all_reduce_host(sizes);
  std::vector<double> bytes(static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), 0.0)));
  const auto before = static_cast<int64_t>(std::accumulate(sizes.begin(), sizes.begin() + rank, 0.0));
  std::ranges::transform(mine, bytes.begin() + before, [](char c) { return static_cast<unsigned char>(c); });
  if (!bytes.empty()) communicator.all_reduce_host(bytes);
  std::vector<std::string> texts;
  auto from = bytes.begin();
  for (const double size : sizes) {
    std::string& text = texts.emplace_back(static_cast<size_t>(size), '\0');
    std::transform(from, from + std::ssize(text), text.begin(), [](double byte) { return static_cast<char>(byte); });
    from += std::ssize(text);
  }
  return texts;
}

}  // namespace ddp
