// Sums over a row of values. All names have internal linkage (kernels.h).
#pragma once

#include "ops/cpu/simd/vectors.h"

#include <type_traits>

namespace ddp {
namespace {

// The sum of all lanes, as a tree.
inline float sum_of_lanes(const Vector<16>& v) {
  float at[16];
  store<16>(at, v);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) at[i] += at[i + half];
  return at[0];
}

// The sum of term(vector length, k) over the columns of a row. Independent chains hide the latency of additions.
template <class F>
inline float sum_of_row(long width, F&& term) {
  Vector<16> chains[4] = {};
  long k = 0;
  for (; k + 64 <= width; k += 64) {
#pragma GCC unroll 4
    for (int chain = 0; chain < 4; ++chain) chains[chain] += term(std::integral_constant<int, 16>{}, k + 16 * chain);
  }
  for (; k + 16 <= width; k += 16) chains[0] += term(std::integral_constant<int, 16>{}, k);
  float rest = 0;
  for (; k < width; ++k) rest += term(std::integral_constant<int, 1>{}, k);
  return sum_of_lanes((chains[0] + chains[1]) + (chains[2] + chains[3])) + rest;
}

}  // namespace
}  // namespace ddp
