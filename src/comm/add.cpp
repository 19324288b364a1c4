#include "comm/add.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ddp {
namespace {

constexpr int64_t kRun = 2048;  // elements; a run of the sum stays in the cache

void add_to(float* __restrict sum, const float* __restrict term, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] += term[i];
}

void add_to(float* __restrict sum, const uint16_t* __restrict term, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] += float_of_bf16(term[i]);
}

void assign(float* __restrict to, const float* __restrict from, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof *to);
}

void assign(float* __restrict to, const uint16_t* __restrict from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = float_of_bf16(from[i]);
}

void assign(uint16_t* __restrict to, const float* __restrict from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = bf16_of_float(from[i]);
}

void assign(uint16_t* __restrict to, const uint16_t* __restrict from, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof *to);
}

// Two f32 terms, the commonest case, need no run.
void sum_of_two(std::span<std::byte* const> to, std::span<std::byte* const> terms, int64_t count) {
  const auto floats = [](std::byte* data) { return reinterpret_cast<float*>(data); };
  if (to.size() == 1) {
    if (to[0] != terms[0]) assign(floats(to[0]), floats(terms[0]), count);
    return add_to(floats(to[0]), floats(terms[1]), count);
  }
  auto* const __restrict a = floats(terms[0]), * const __restrict b = floats(terms[1]);
  for (int64_t i = 0; i < count; ++i) a[i] = b[i] = a[i] + b[i];
}

template <class T>
void sum(std::span<std::byte* const> to, std::span<std::byte* const> terms, int64_t count) {
  std::array<float, kRun> run;
  for (int64_t at = 0; at < count; at += kRun) {
    const int64_t length = std::min(kRun, count - at);
    const auto in = [at](std::byte* data) { return reinterpret_cast<T*>(data) + at; };
    assign(run.data(), in(terms[0]), length);
    for (std::byte* const term : terms.subspan(1)) add_to(run.data(), in(term), length);
    assign(in(to[0]), run.data(), length);
    for (std::byte* const other : to.subspan(1)) assign(in(other), in(to[0]), length);
  }
}

void sum(std::span<std::byte* const> to, std::span<std::byte* const> terms, int64_t count, DType dtype) {
  if (dtype == DType::f32 && terms.size() == 2 && (to.size() == 2 || to[0] != terms[1]))
    return sum_of_two(to, terms, count);
  dtype == DType::f32 ? sum<float>(to, terms, count) : sum<uint16_t>(to, terms, count);
}

}  // namespace

void add(void* to, const void* from, int64_t count, DType dtype) {
  if (dtype == DType::f32) {
    add_to(static_cast<float*>(to), static_cast<const float*>(from), count);
    return;
  }
  auto* const __restrict sum = static_cast<uint16_t*>(to);
  const auto* const __restrict term = static_cast<const uint16_t*>(from);
  for (int64_t i = 0; i < count; ++i) sum[i] = bf16_of_float(float_of_bf16(sum[i]) + float_of_bf16(term[i]));
}

void sum_in_order(std::byte* to, std::span<std::byte* const> terms, int64_t count, DType dtype) {
  sum({&to, 1}, terms, count, dtype);
}

void sum_everywhere(std::span<std::byte* const> terms, int64_t count, DType dtype) { sum(terms, terms, count, dtype); }

}  // namespace ddp
