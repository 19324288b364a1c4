#include "tests/ops/backend.h"

namespace ddp::testing {
namespace {

class Channels : public BackendTest {
 protected:
  // A copy changes no bit, so values are equal.
  static void expect_equal(const TensorOnDevice& actual, const Values& expected, const char* what) {
    const auto loaded = actual.loaded();
    EXPECT_EQ(loaded.dense, expected) << what;
    expect_zero(loaded.padding, what);
  }
};
INSTANTIATE_TEST_SUITE_P(, Channels, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

TEST_P(Channels, JoinsAndSplits) {
  struct Joined {
    int64_t n, h, w, a, b;
  };
  for (const auto& [n, h, w, first, b] :
       {Joined{1, 1, 1, 16, 1}, {3, 2, 3, 16, 20}, {17, 1, 2, 32, 48}, {9, 5, 4, 48, 7}, {2, 30, 30, 16, 64}})
    for (const int64_t a : {first, first - 3}) {
      SCOPED_TRACE(fmt::format("{} of {}x{}, {} and {} channels", n, h, w, a, b));
      const Shape sa{n, {h, w, a}}, sb{n, {h, w, b}}, both{n, {h, w, a + b}};
      Values va = random(sa.elements(), 1), vb = random(sb.elements(), 2), joined(both.elements());
      reference->copy_channels(on_host(va, sa), 0, on_host(joined, both), 0, a);
      reference->copy_channels(on_host(vb, sb), 0, on_host(joined, both), a, b);
      EXPECT_EQ(joined[a], vb[0]);
      std::vector<Format> formats = backend.formats;
      std::erase_if(formats, [&, a = a](Format f) { return f.kind == Format::Kind::blocked_channels && a % f.block; });
      each_setup(formats, backend.offsets, [&, a = a, b = b] {
        const auto xa = filled(sa, va), xb = filled(sb, vb), y = unwritten(both), da = unwritten(sa),
                   db = unwritten(sb);
        ops->copy_channels(xa.tensor(), 0, y.tensor(), 0, a);
        ops->copy_channels(xb.tensor(), 0, y.tensor(), a, b);
        expect_equal(y, joined, "y");
        ops->copy_channels(y.tensor(), 0, da.tensor(), 0, a);
        ops->copy_channels(y.tensor(), a, db.tensor(), 0, b);
        expect_equal(da, va, "the first part");
        expect_equal(db, vb, "the second part");
      });
    }
}

TEST_P(Channels, SetsAndSumsARange) {
  struct Range {
    int64_t n, h, c, first, count;
  };
  for (const auto& [n, h, c, first, count] : {Range{1, 1, 5, 0, 5},
                                              {3, 1, 24, 8, 16},
                                              {17, 3, 13, 4, 9},
                                              {2, 1, 7, 7, 0},
                                              {70, 1, 300, 0, 296},
                                              {5, 1, 17000, 1, 16900},
                                              {2500, 1, 12, 4, 8}}) {
    SCOPED_TRACE(fmt::format("{} of {}x1x{}, {} from {}", n, h, c, count, first));
    const Shape shape{n, {h, 1, c}};
    const Values x = random(shape.elements(), 1), values = random_values(count, 2), given = random_values(count, 3);
    Values expected = x, zeros = x, sums(count), added = given, copy = x;
    reference->set_channels(values.data(), on_host(expected, shape), first, count);
    reference->set_channels(nullptr, on_host(zeros, shape), first, count);
    reference->sum_channels(on_host(copy, shape), first, count, sums.data(), Gradient::overwrite);
    reference->sum_channels(on_host(copy, shape), first, count, added.data(), Gradient::add);
    Values bits;  // of the sums
    each_setup({{}}, backend.offsets, [&, n = n, h = h, first = first, count = count] {
      const auto y = filled(shape, x), z = filled(shape, x);
      const auto from = on_device(values);
      ops->set_channels(from.data(), y.tensor(), first, count);
      ops->set_channels(nullptr, z.tensor(), first, count);
      EXPECT_EQ(y.values(), rounded(expected, type));
      EXPECT_EQ(z.values(), zeros);
      const auto dy = filled(shape, x);
      const auto to = unwritten(count), sum = on_device(given);
      ops->sum_channels(dy.tensor(), first, count, to.data(), Gradient::overwrite);
      ops->sum_channels(dy.tensor(), first, count, sum.data(), Gradient::add);
      expect_within(backend.sums * 10, to.values(), sums, "sums");
      expect_within(backend.sums * 10, sum.values(), added, "added sums");
      if (backend.cuda()) return;
      if (bits.empty()) bits = to.values();
      EXPECT_EQ(to.values(), bits) << "with another number of threads";
    });
  }
}

}  // namespace
}  // namespace ddp::testing
