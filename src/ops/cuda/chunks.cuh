// The tensors of a flat buffer, split into chunks, one per block. A chunk belongs to one tensor.
#pragma once

#include "core/error.h"
#include "device/buffer.h"
#include "device/device.h"
#include "ops/cuda/pack.cuh"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

// About kMaxBlocks chunks. The length of a chunk is a multiple of the elements that a block
// processes in one round. `Chunk` has begin and end, in elements; fill(chunk, i) sets what comes from tensor i. Tensors
// have offset and count, ascending.
template <class Chunk, class Tensor, class Fill>
std::vector<Chunk> make_chunks(std::span<const Tensor> tensors, const Fill& fill) {
  constexpr int64_t kRound = kThreads * 4;
  int64_t total = 0;
  for (const Tensor& t : tensors) total += t.count;
  const int64_t length = std::max<int64_t>((total / kMaxBlocks + kRound - 1) / kRound, 1) * kRound;
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    DDP_EXPECT(t.offset % 16 == 0 && (i == 0 || t.offset >= tensors[i - 1].offset + tensors[i - 1].count));
    for (int64_t at = 0; at < t.count; at += length) {
      Chunk& chunk = chunks.emplace_back();
      chunk.begin = t.offset + at;
      chunk.end = t.offset + std::min(at + length, t.count);
      fill(chunk, i);
    }
  }
  return chunks;
}

// The chunks with elements in [begin, end).
template <class Chunk>
std::span<const Chunk> chunks_in(std::span<const Chunk> chunks, int64_t begin, int64_t end) {
  const auto first = std::ranges::partition_point(chunks, [&](const Chunk& c) { return c.end <= begin; });
  const auto last = std::ranges::partition_point(chunks, [&](const Chunk& c) { return c.begin < end; });
  return first < last ? std::span<const Chunk>(first, last) : std::span<const Chunk>();
}

// Calls body<N>(i) for the elements [begin, end), with the threads of one block. begin is a multiple of W.
template <int W, class Body>
__device__ void each_of_block(int64_t begin, int64_t end, const Body& body) {
  each_pack<W>(end - begin, threadIdx.x, blockDim.x, [&]<int N>(int64_t i) { body.template operator()<N>(begin + i); });
}

template <class Chunk>
Buffer uploaded(Device& device, const std::vector<Chunk>& values) {
  Buffer buffer(device, values.size() * sizeof(Chunk));
  device.upload(buffer.data(), values.data(), buffer.bytes());
  return buffer;
}

}  // namespace ddp
