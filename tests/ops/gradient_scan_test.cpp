#include "tests/ops/backend.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace ddp::testing {
namespace {

// Tensors with gaps, in two buckets: marks 3 and 5.
const ScannedTensor kScanned[] = {{0, 3000, 3, true}, {3008, 50, 3, false}, {3072, 9, 5, true}, {3088, 5000, 5, false}};
constexpr int64_t kSecondMark = 3072, kScannedEnd = 8096;

class GradientScan : public BackendTest {
 protected:
  struct Scanned {
    Values gradients;
    float flag, squares;
    bool operator==(const Scanned&) const = default;
  };

  Scanned scan(Ops& tested, Device& on, const Values& given, const Values& bf16, Gradient mode, int64_t begin,
               float flag, Gradient squares_mode) const {
    const OnDevice<float> gradients(on, given), to(on, Values{flag, 100});
    const OnDevice<uint16_t> rounded(on, bf16_of(bf16));
    tested.gradient_scan(kScanned)->run({.gradients = gradients.data(),
                                         .bf16 = bf16.empty() ? nullptr : rounded.data(),
                                         .mode = mode,
                                         .begin = begin,
                                         .count = kScannedEnd - begin},
                                        to.data(), to.data() + 1, squares_mode);
    return {gradients.values(), to.values()[0], to.values()[1]};
  }

  void expect_agreement(const Values& given, const Values& bf16, Gradient mode, int64_t begin, float flag,
                        Gradient squares_mode) const {
    SCOPED_TRACE(fmt::format("bf16 {}, add {}, from {}, flag {}, add squares {}", !bf16.empty(), mode == Gradient::add,
                             begin, flag, squares_mode == Gradient::add));
    const Scanned expected = scan(*reference, *host, given, bf16, mode, begin, flag, squares_mode);
    const Scanned actual = scan(*ops, *device, given, bf16, mode, begin, flag, squares_mode);
    EXPECT_EQ(actual.flag, expected.flag);
    if (!std::isfinite(expected.squares)) return;
    EXPECT_EQ(actual.gradients, expected.gradients);
    expect_close({actual.squares}, {expected.squares}, "squares", 1e-6);
    EXPECT_EQ(actual, scan(*ops, *device, given, bf16, mode, begin, flag, squares_mode));
  }
};
INSTANTIATE_TEST_SUITE_P(, GradientScan, ::testing::ValuesIn(backends_where(is_compared, runs_spans)), kBackendName);

TEST_P(GradientScan, AgreesWithTheReference) {
  Values values = random_values(kScannedEnd, 1);
  for (size_t i = 0; i < std::size(kScanned); ++i) {
    const int64_t next = i + 1 < std::size(kScanned) ? kScanned[i + 1].offset : kScannedEnd;
    std::fill(values.begin() + kScanned[i].offset + kScanned[i].count, values.begin() + next, 0.0f);
  }
  const Values halves = random_values(kScannedEnd, 2);
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<Values> left{{}};
  if (backend.cuda()) left.push_back(halves);
  for (const Values& bf16 : left)
    for (const Gradient mode : {Gradient::overwrite, Gradient::add})
      for (const int64_t begin : {int64_t{0}, kSecondMark}) {
        expect_agreement(values, bf16, mode, begin, 0, mode);
        for (const auto& [at, bad] : {std::pair{int64_t{3010}, std::nanf("")},
                                      {int64_t{5000}, -infinity},
                                      {kScannedEnd - 10, infinity},
                                      {int64_t{5000}, 1e30f}}) {  // finite, but for its square
          Values broken = values;
          broken[at] = bad;
          if (at < kScannedEnd - 10) broken[5001] = bad;
          expect_agreement(broken, bf16, mode, begin, 0, mode);
          expect_agreement(broken, bf16, mode, begin, 9, mode);
        }
      }
  if (!backend.cuda()) return;
  Values broken = halves;
  broken[2999] = broken[3080] = infinity;
  expect_agreement(values, broken, Gradient::add, 0, 0, Gradient::overwrite);
  expect_agreement(values, broken, Gradient::overwrite, kSecondMark, 0, Gradient::overwrite);
}

}  // namespace
}  // namespace ddp::testing
