#include "tests/ops/backend.h"

#include <bit>
#include <cstdint>
#include <set>
#include <vector>

namespace ddp::testing {
namespace {

class TensorHashes : public BackendTest {
 protected:
  std::vector<uint64_t> hashes_of(const HashedSpan& tensor, const Values& values) {
    const auto on = on_device(values);
    const auto hash = on_device(std::vector<uint64_t>{7});
    ops->tensor_hash({&tensor, 1})->hash(on.data(), hash.data());
    return hash.values();
  }
};
INSTANTIATE_TEST_SUITE_P(, TensorHashes, ::testing::ValuesIn(backends_where(runs_spans)), kBackendName);

// More than one part of work in a tensor, a gap of no tensor, and a tensor without elements.
TEST_P(TensorHashes, AgreeWithTheReference) {
  const HashedSpan tensors[] = {{0, 1}, {16, 40001}, {40017, 0}, {40032, 300}};
  Values values = random_values(40332, 1);
  values[17] = std::nanf("");
  values[18] = -0.0f;
  std::vector<uint64_t> expected(4);
  reference->tensor_hash(tensors)->hash(values.data(), expected.data());
  each_setup({Format{}}, backend.offsets, [&] {
    const auto on = on_device(values);
    const auto hashes = on_device(std::vector<uint64_t>{1, 2, 3, 4});  // overwritten
    const auto plan = ops->tensor_hash(tensors);
    for (int twice = 0; twice < 2; ++twice) {
      plan->hash(on.data(), hashes.data());
      EXPECT_EQ(hashes.values(), expected);
    }
  });
}

TEST_P(TensorHashes, SeeEachBitAndTheOrder) {
  const HashedSpan tensor{1, 3};
  const Values values{9, 1, 2, 0, 9};
  std::set<std::vector<uint64_t>> seen{hashes_of(tensor, values)};
  size_t different = 1;
  for (int i = 1; i <= 3; ++i)
    for (int bit = 0; bit < 32; ++bit, ++different) {
      Values changed = values;
      changed[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(values[i]) ^ 1u << bit);
      seen.insert(hashes_of(tensor, changed));
    }
  seen.insert(hashes_of(tensor, {9, 2, 1, 0, 9}));
  seen.insert(hashes_of(tensor, {9, 0, 1, 2, 9}));
  EXPECT_EQ(seen.size(), different + 2);
  EXPECT_EQ(hashes_of(tensor, {8, 1, 2, 0, 8}), hashes_of(tensor, values));
}

}  // namespace
}  // namespace ddp::testing
