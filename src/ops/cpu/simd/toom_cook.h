// The algorithm of Toom and Cook, which Winograd's is built from: y[k] = sum over t of d[k + t] * g[t], for Outputs
// values of y and Taps weights, as Outputs + Taps - 1 products of transformed values:
//   y = A'((G g) * (B' d)), and, as its transposed form, the gradient of the weights dg = G'((A dy) * (B' d)).
// Values are evaluated at points: row k of A and G has powers of point k; row k of B' has the coefficients of N, the
// polynomial that is 0 at all other points; and G divides by N at point k. Infinity stands for the last coefficient.
// All names have internal linkage (kernels.h).
#pragma once

#include <immintrin.h>

#include <iterator>

namespace ddp {
namespace {

// Points has pairs of values, `pairs` (a stands for a and -a), and may have zero and infinity. Point 2i is pairs[i],
// point 2i + 1 is -pairs[i]; zero and infinity are behind them.
template <class Points, long Outputs, long Taps>
struct ToomCook {
  static constexpr long kTaps = Taps, kPoints = Outputs + Taps - 1, kPairs = std::size(Points::pairs);
  static_assert(kPoints == 2 * kPairs + Points::zero + Points::infinity);

  [[gnu::always_inline]] static void input(const __m512 (&d)[kPoints], __m512 (&to)[kPoints]) {  // B'
    // N of a point a is (a + x) E, or (a + x) x E with zero, where E is the product of x^2 - b^2 over the other pairs
    // b.
#pragma GCC unroll 16
    for (long i = 0; i < kPairs; ++i) {
      const __m512 low = sum_by_squares(i, d, Points::zero), high = sum_by_squares(i, d, Points::zero + 1),
                   a = number(kMatrices.output[i][1]);
      to[2 * i] = high + a * low;
      to[2 * i + 1] = Points::zero ? high - a * low : a * low - high;
    }
    if constexpr (Points::zero) to[kZero] = sum_by_squares(kPairs, d, 0);
    if constexpr (Points::infinity) to[kPoints - 1] = sum_by_squares(kPairs + 1, d, Points::zero);
  }
  [[gnu::always_inline]] static void weights(const __m512 (&g)[Taps], __m512 (&to)[kPoints]) {  // G
    spread(kMatrices.weights, g, to);
    if constexpr (Points::zero) to[kZero] = number(kMatrices.weights[kPairs][0]) * g[0];
    if constexpr (Points::infinity) to[kPoints - 1] = g[Taps - 1];
  }
  [[gnu::always_inline]] static void output(const __m512 (&m)[kPoints], __m512 (&y)[Outputs]) {  // A'
    gather(kMatrices.output, m, y);
  }
  [[gnu::always_inline]] static void gradient(const __m512 (&dy)[Outputs], __m512 (&to)[kPoints]) {  // A
    spread(kMatrices.output, dy, to);
    if constexpr (Points::zero) to[kZero] = dy[0];
    if constexpr (Points::infinity) to[kPoints - 1] = dy[Outputs - 1];
  }
  [[gnu::always_inline]] static void weight_gradient(const __m512 (&m)[kPoints], __m512 (&dg)[Taps]) {  // G'
    gather(kMatrices.weights, m, dg);
  }

 private:
  static constexpr long kZero = 2 * kPairs, kRows = kPairs + 2;  // rows: of positive points, zero and infinity

  struct Matrices {
    float squares[kRows][kPairs + 1] = {};  // coefficients of E, which for zero and infinity has all pairs
    float weights[kRows][Taps] = {}, output[kRows][Outputs] = {};
  };

  static constexpr Matrices matrices() {
    Matrices all;
    for (long row = 0; row < kRows; ++row) {
      const double point = row < kPairs ? Points::pairs[row] : 0;
      double e[kPairs + 1] = {1}, value = 0, power = 1;
      for (long i = 0; i < kPairs; ++i)
        if (i != row)
          for (long k = kPairs; k >= 0; --k) e[k] = (k > 0 ? e[k - 1] : 0) - Points::pairs[i] * Points::pairs[i] * e[k];
      for (long k = 0; k <= kPairs; ++k, power *= point * point) {
        value += e[k] * power;
        all.squares[row][k] = static_cast<float>(e[k]);
      }
      if (row < kPairs) value *= 2 * point * (Points::zero ? point : 1);  // now N
      power = 1;
      for (long k = 0; k < kPoints; ++k, power *= point) {
        if (row == kPairs + 1) continue;
        if (k < Taps) all.weights[row][k] = static_cast<float>(power / value);
        if (k < Outputs) all.output[row][k] = static_cast<float>(power);
      }
    }
    all.weights[kPairs + 1][Taps - 1] = 1;
    all.output[kPairs + 1][Outputs - 1] = 1;
    return all;
  }
  static constexpr Matrices kMatrices = matrices();

  static __m512 number(float value) { return _mm512_set1_ps(value); }

  // The sum of row[k] * v[k] over k = first, first + 2, ...
  template <long N>
  [[gnu::always_inline]] static __m512 every_second(const float (&row)[N], const __m512 (&v)[N], long first) {
    __m512 all = number(row[first]) * v[first];
#pragma GCC unroll 16
    for (long k = first + 2; k < N; k += 2) all += number(row[k]) * v[k];
    return all;
  }
  // The sum of the coefficients of E times d[first], d[first + 2], ...
  [[gnu::always_inline]] static __m512 sum_by_squares(long row, const __m512 (&d)[kPoints], long first) {
    const long degree = row < kPairs ? kPairs - 1 : kPairs;
    __m512 all = d[first + 2 * degree];  // its coefficient is 1
#pragma GCC unroll 16
    for (long k = degree - 1; k >= 0; --k) all += number(kMatrices.squares[row][k]) * d[first + 2 * k];
    return all;
  }

  // The points of pairs: terms of even powers are those of both points, terms of odd powers differ in the sign.
  template <long N>
  [[gnu::always_inline]] static void spread(const float (&rows)[kRows][N], const __m512 (&from)[N],
                                            __m512 (&to)[kPoints]) {
#pragma GCC unroll 16
    for (long i = 0; i < kPairs; ++i) {
      const __m512 even = every_second(rows[i], from, 0), odd = every_second(rows[i], from, 1);
      to[2 * i] = even + odd;
      to[2 * i + 1] = even - odd;
    }
  }

  template <long N>
  [[gnu::always_inline]] static void gather(const float (&rows)[kRows][N], const __m512 (&from)[kPoints],
                                            __m512 (&to)[N]) {
    __m512 sums[2][kPairs];
#pragma GCC unroll 16
    for (long i = 0; i < kPairs; ++i) {
      sums[0][i] = from[2 * i] + from[2 * i + 1];
      sums[1][i] = from[2 * i] - from[2 * i + 1];
    }
#pragma GCC unroll 16
    for (long k = 0; k < N; ++k) {
      __m512 all = number(rows[0][k]) * sums[k % 2][0];
#pragma GCC unroll 16
      for (long i = 1; i < kPairs; ++i) all += number(rows[i][k]) * sums[k % 2][i];
      if (Points::zero && k == 0) all += number(rows[kPairs][0]) * from[kZero];
      if (Points::infinity && k == N - 1) all += from[kPoints - 1];
      to[k] = all;
    }
  }
};

}  // namespace
}  // namespace ddp
