#include "device/buffer.h"
#include "tests/gpu/fixture.h"
#include "tests/ops/on_device.h"

#include <algorithm>
#include <numeric>

namespace ddp::testing {
namespace {

constexpr int64_t kMany = 1 << 20;

template <class T>
std::vector<T> downloaded(Device& device, const Buffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  device.download(values.data(), buffer.data(), buffer.bytes());
  device.synchronize();
  return values;
}

TEST(DeviceOnGpu, MemoryIsZeroedAndCopiesKeepTheirOrder) {
  const auto device = make_cuda_device({});
  Buffer first(*device, kMany * sizeof(float)), host(device->host_memory(), kMany * sizeof(float));
  EXPECT_EQ(downloaded<float>(*device, first), Values(kMany, 0.0f));
  float* const values = host.as<float>();
  std::iota(values, values + kMany, 0.0f);
  device->upload(first.data(), values, host.bytes());
  device->fence(0);
  device->await(0);
  EXPECT_TRUE(device->passed(0));
  std::fill(values, values + kMany, -1.0f);
  device->download(values, first.data(), host.bytes());
  device->zero(first.data(), first.bytes());
  device->synchronize();
  for (int64_t i = 0; i < kMany; ++i) ASSERT_EQ(values[i], static_cast<float>(i));
  EXPECT_EQ(downloaded<float>(*device, first), Values(kMany, 0.0f));
}

TEST(DeviceOnGpu, UploadAheadComesBeforeLaterWork) {
  const auto device = make_cuda_device({});
  Buffer buffer(*device, kMany * sizeof(float)), host(device->host_memory(), kMany * sizeof(float));
  std::fill_n(host.as<float>(), kMany, 3.0f);
  device->upload_ahead(buffer.data(), host.data(), host.bytes());
  EXPECT_EQ(downloaded<float>(*device, buffer), Values(kMany, 3.0f));
}

TEST(DeviceOnGpu, TimestampsIncrease) {
  const auto device = make_cuda_device({});
  Buffer timestamps(*device, 3 * sizeof(int64_t)), work(*device, kMany);
  for (int i = 0; i < 3; ++i) {
    device->zero(work.data(), work.bytes());
    device->timestamp(timestamps.as<int64_t>() + i);
  }
  const auto times = downloaded<int64_t>(*device, timestamps);
  EXPECT_GT(times[0], 0);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
}

// The gradient is -1, so each run adds the learning rate to every weight.
TEST(DeviceOnGpu, GraphReplaysReadCurrentMemory) {
  for (const bool graphs : {true, false}) {
    const auto device = make_cuda_device({.graphs = graphs});
    const auto ops = make_cuda_ops(*device, {.precision = Precision::fp32});
    const OptimizerTensor tensors[] = {{0, 1000}};
    const auto optimizer = ops->optimizer({}, tensors);
    const OnDevice<float> w(*device, Values(1000)), g(*device, Values(1000, -1.0f));
    const OnDevice<OptimizerScalars> scalars(*device, {{.lr = 1}});
    const auto cache = device->graph_cache();
    const auto step = [&] {
      cache->run({.kind = 1, .size = 1000}, [&] {
        optimizer->step({w.data(), g.data(), 0, 1000, {}}, scalars.data(), {});
      });
    };
    for (int i = 0; i < 5; ++i) step();
    EXPECT_EQ(w.values(), Values(1000, 5.0f));
    const OptimizerScalars ten{.lr = 10};
    device->upload(scalars.data(), &ten, sizeof ten);
    step();
    EXPECT_EQ(w.values(), Values(1000, 15.0f));
  }
}

}  // namespace
}  // namespace ddp::testing
