#include "comm/shm/pieces.h"

#include <algorithm>
#include <map>

namespace ddp {

HostLayout::HostLayout(const std::vector<int>& hosts_of_ranks) {
  std::map<int, int> numbers;
  std::vector<int> ranks;  // by host
  for (const int name : hosts_of_ranks) {
    const auto [number, is_new] = numbers.try_emplace(name, std::ssize(ranks));
    if (is_new) ranks.push_back(0);
    host.push_back(number->second);
    local.push_back(ranks[number->second]++);
  }
  hosts = static_cast<int>(ranks.size());
  lanes = *std::ranges::min_element(ranks);
}

void Pieces::begin(int hosts) {
  chunks_.resize(hosts);
  for (auto& chunk : chunks_) chunk.clear();
}

void Pieces::cut_blocks(const BlockRule& rule, int lane, int64_t offset, int64_t bytes) {
  begin(rule.hosts);
  if (bytes == 0) return;
  const int64_t end = offset + bytes;
  for (int64_t block = offset / rule.bytes; block * rule.bytes < end; ++block) {
    if (rule.lane_of(block) != lane) continue;
    const int64_t from = std::max(offset, block * rule.bytes), to = std::min(end, (block + 1) * rule.bytes);
    chunks_[rule.chunk_of(block)].push_back({.begin = from - offset, .bytes = to - from});
  }
}

void Pieces::cut_parts(const BlockRule& rule, const HostLayout& layout, int lane, int64_t part_bytes, int64_t begin,
                       int64_t bytes) {
  this->begin(rule.hosts);
  for (int64_t at = begin; at < begin + bytes;) {
    const int64_t rank = at / part_bytes, end = std::min({begin + bytes, (rank + 1) * part_bytes, at + rule.bytes});
    if (layout.local[rank] % rule.lanes == lane)
      chunks_[layout.host[rank]].push_back({.begin = at - begin, .bytes = end - at, .owner = layout.local[rank]});
    at = end;
  }
}

int64_t Pieces::longest() const {
  int64_t longest = 0;
  for (const auto& chunk : chunks_) longest = std::max<int64_t>(longest, std::ssize(chunk));
  return longest;
}

int64_t Pieces::largest() const {
  int64_t largest = 0;
  for (const auto& chunk : chunks_)
    for (const Piece& piece : chunk) largest = std::max(largest, piece.bytes);
  return largest;
}

}  // namespace ddp
