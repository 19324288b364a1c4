// Streams, events and memory.
#include "fixture.h"

#include <cmath>
#include <cstring>
#include <string>

namespace ddp {
namespace {

constexpr uint64_t kSeeds = 200;

// Stream a writes x and stream b reads it. Returns the number of seeds that gave a wrong y.
int wrong_results(bool ordered) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Fixture fixture(seed);
    launch(fixture.a, 4, 256, set, fixture.y, 0.0f);
    launch(fixture.a, 4, 256, set, fixture.x, 3.0f);
    if (ordered) fixture.order(fixture.b, fixture.a, fixture.event);
    launch(fixture.b, 4, 256, map, fixture.x, fixture.y);
    wrong += fixture.read(fixture.y)[17] != 7.0f;
  }
  return wrong;
}

TEST(Streams, OnlyEventsOrderThem) {
  EXPECT_EQ(wrong_results(true), 0);
  const int wrong = wrong_results(false);
  EXPECT_GT(wrong, static_cast<int>(kSeeds / 4));
  EXPECT_LT(wrong, static_cast<int>(kSeeds));
}

TEST(Streams, NothingRunsBeforeTheHostWaits) {
  Fixture fixture;
  bool ran = false;
  emulator::enqueue(fixture.a, [&] { ran = true; });
  EXPECT_FALSE(ran);
  EXPECT_EQ(cudaStreamSynchronize(fixture.a), cudaSuccess);
  EXPECT_TRUE(ran);
}

TEST(Streams, RepeatedQueriesFinishTheWork) {
  Fixture fixture;
  for (int i = 0; i < 50; ++i) launch(fixture.a, 1, 32, set, fixture.x, 1.0f);
  EXPECT_EQ(cudaEventRecord(fixture.event, fixture.a), cudaSuccess);
  int not_ready = 0;
  while (cudaEventQuery(fixture.event) == cudaErrorNotReady) ++not_ready;
  EXPECT_GT(not_ready, 0);
  EXPECT_EQ(cudaStreamQuery(fixture.a), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(Streams, DefaultStreamWaitsForBlockingStreamsOnly) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Fixture fixture(seed);
    cudaStream_t blocking = nullptr;
    ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
    launch(blocking, 4, 256, set, fixture.x, 1.0f);
    launch(nullptr, 4, 256, map, fixture.x, fixture.y);
    launch(blocking, 4, 256, set, fixture.x, 9.0f);
    EXPECT_EQ(fixture.read(fixture.y)[0], 3.0f);

    EXPECT_EQ(cudaMemset(fixture.x, 0, fixture.count * sizeof(float)), cudaSuccess);
    launch(fixture.a, 4, 256, map, fixture.x, fixture.y);
    wrong += fixture.read(fixture.y)[0] != 1.0f;
    EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
  }
  EXPECT_GT(wrong, 0);
}

TEST(Streams, WorkMayWaitForACondition) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Fixture fixture(seed);
    bool first = false, second = false;
    emulator::enqueue(
        fixture.a, [&] { second = first; }, [&] { return first; });
    emulator::enqueue(fixture.b, [&] { first = true; });
    EXPECT_EQ(cudaStreamSynchronize(fixture.a), cudaSuccess);
    EXPECT_TRUE(second);
  }
}

// The order in which the work of three threads runs. Each thread has work on two streams, polls, waits for the device
// and for the other threads.
std::vector<int> order_of_turns(uint64_t seed) {
  emulator::set_seed(seed);
  std::vector<int> order;
  int arrived = 0;
  emulator::run_in_turns(3, [&](int thread) {
    cudaStream_t streams[2];
    for (cudaStream_t& stream : streams) EXPECT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    for (int i = 0; i < 10; ++i) {
      for (int s = 0; s < 2; ++s)
        emulator::enqueue(streams[s], [&order, thread, s] { order.push_back(2 * thread + s); });
      if (i % 3 == thread) (void)cudaStreamQuery(streams[0]);
      if (i == 5) {
        ++arrived;
        emulator::wait_until([&] { return arrived == 3; });
      }
    }
    for (const cudaStream_t stream : streams) {
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
  });
  return order;
}

TEST(Turns, TheSeedAloneDecidesTheOrder) {
  const std::vector<int> order = order_of_turns(1);
  EXPECT_EQ(order.size(), 60u);
  EXPECT_EQ(order_of_turns(1), order);
  EXPECT_NE(order_of_turns(2), order);
}

TEST(TurnsDeathTest, AThreadThatWaitsForNothingEndsTheProgram) {
  EXPECT_DEATH(emulator::run_in_turns(2, [](int) { emulator::wait_until([] { return false; }); }), "can never run");
}

TEST(Memory, SourcesAreReadWhenTheCopyRuns) {
  Fixture fixture;
  float* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(float)), cudaSuccess);
  float pageable = 1;
  *pinned = 1;
  ASSERT_EQ(cudaMemcpyAsync(fixture.x, &pageable, sizeof(float), cudaMemcpyHostToDevice, fixture.a), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(fixture.x + 1, pinned, sizeof(float), cudaMemcpyHostToDevice, fixture.a), cudaSuccess);
  pageable = *pinned = 2;
  const std::vector<float> values = fixture.read(fixture.x);
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(values[1], 2);
  EXPECT_TRUE(std::isnan(values[2]));  // not written

  ASSERT_EQ(cudaMemcpyAsync(pinned, fixture.x, sizeof(float), cudaMemcpyDeviceToHost, fixture.a), cudaSuccess);
  *pinned = 3;  // not yet written
  ASSERT_EQ(cudaMemcpyAsync(&pageable, fixture.x, sizeof(float), cudaMemcpyDeviceToHost, fixture.a), cudaSuccess);
  EXPECT_EQ(pageable, 2);
  EXPECT_EQ(*pinned, 2);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(Memory, WrongRangesAndDirectionsAreRefused) {
  Fixture fixture(1, 16);
  float host[17];
  EXPECT_EQ(cudaMemcpy(host, fixture.x, sizeof(host), cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, fixture.x, 4, cudaMemcpyHostToDevice), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemset(host, 0, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(host), cudaErrorInvalidValue);
  emulator::set_memory(size_t{1} << 20);
  void* large = nullptr;
  EXPECT_EQ(cudaMalloc(&large, size_t{1} << 20), cudaErrorMemoryAllocation);
  emulator::set_memory(size_t{1} << 30);
  EXPECT_STREQ(cudaGetErrorName(cudaGetLastError()), "cudaErrorMemoryAllocation");
}

TEST(Handles, AreRefusedAfterDestruction) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorInvalidResourceHandle);
}

TEST(Devices, CountIsConfigurable) {
  emulator::set_device_count(3);
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(cudaSetDevice(2), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  cudaDeviceProp first{}, second{};
  EXPECT_EQ(cudaGetDeviceProperties(&first, 0), cudaSuccess);
  EXPECT_EQ(cudaGetDeviceProperties(&second, 1), cudaSuccess);
  EXPECT_STREQ(first.name, "Emulated GPU");
  EXPECT_NE(std::memcmp(&first.uuid, &second.uuid, sizeof(first.uuid)), 0);
  char bus_id[16];
  EXPECT_EQ(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), 1), cudaSuccess);
  EXPECT_STREQ(bus_id, "0000:11:00.0");
  emulator::set_device_count(0);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  emulator::set_device_count(1);
  cudaGetLastError();
}

}  // namespace
}  // namespace ddp
