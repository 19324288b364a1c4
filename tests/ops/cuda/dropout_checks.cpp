#include "tests/ops/cuda/checks.h"

#include <fmt/format.h>

namespace ddp::testing {

void check_dropout(const Tested& t) {
  for (const Shape& shape : {Shape{1, {1, 1, 1}}, Shape{3, {1, 1, 7}}, Shape{5, {3, 3, 2}}, Shape{2, {1, 1, 10}},
                             Shape{7, {5, 5, 12}}, Shape{17, {4, 4, 64}}, Shape{3, {211, 200, 5}}})
    for (const auto& [rate, epoch] : {std::pair{0.5f, 0u}, {0.1f, 7u}, {0.0f, 1u}, {0.97f, 2u}})
      for (const int64_t before : {0, 1}) {
        SCOPED_TRACE(fmt::format("{} x {}, rate {}, after {}", shape.n, shape.image.elements(), rate, before));
        std::vector<int32_t> keys(shape.n);
        for (int64_t i = 0; i < shape.n; ++i) keys[i] = static_cast<int32_t>(i * 7919 % 60000);
        Values x = t.random(shape.elements(), 1), expected(shape.elements());
        Dropout dropout{0x123456789abcdef, 3, rate, &epoch};
        t.reference.dropout(dropout, on_host(x, shape), {.keys = keys.data(), .size = shape.n},
                            on_host(expected, shape));
        const OnDeviceTensor ax(t.device, shape, t.type, x, before), ay(t.device, shape, t.type, before);
        const OnDevice<int32_t> on_keys(t.device, keys);
        const OnDevice<uint32_t> on_epoch(t.device, {epoch});
        const DeviceBatch batch{.keys = on_keys.data(), .size = shape.n};
        dropout.epoch = on_epoch.data();
        t.ops.dropout(dropout, ax.tensor(), batch, ay.tensor());
        const Values y = ay.values();
        for (int64_t i = 0; i < shape.elements(); ++i) ASSERT_EQ(y[i] != 0, expected[i] != 0) << "element " << i;
        expect_close(y, expected, "y", t.tolerance());
        t.ops.dropout(dropout, ax.tensor(), batch, ax.tensor());
        EXPECT_EQ(ax.values(), y) << "in place";
      }
}

}  // namespace ddp::testing
