// Stream captures and their graphs.
#include "fixture.h"

#include <cmath>
#include <thread>

namespace ddp {
namespace {

cudaError_t begin(const Fixture& fixture) {
  return cudaStreamBeginCapture(fixture.a, cudaStreamCaptureModeThreadLocal);
}

// x = value on a, y = 2x + 1 on b, x = 2y + 1 on a.
void fork_and_join(const Fixture& fixture, float value, bool join) {
  launch(fixture.a, 4, 256, set, fixture.x, value);
  fixture.order(fixture.b, fixture.a, fixture.event);
  launch(fixture.b, 4, 256, map, fixture.x, fixture.y);
  if (!join) return;
  fixture.order(fixture.a, fixture.b, fixture.joined);
  launch(fixture.a, 4, 256, map, fixture.y, fixture.x);
}

TEST(Capture, ReplaysForkAndJoin) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Fixture fixture(seed);
    ASSERT_EQ(begin(fixture), cudaSuccess);
    fork_and_join(fixture, 3, true);
    cudaStreamCaptureStatus status{};
    EXPECT_EQ(cudaStreamIsCapturing(fixture.b, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(fixture.a, &graph), cudaSuccess);
    EXPECT_EQ(cudaStreamIsCapturing(fixture.b, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
    EXPECT_TRUE(std::isnan(fixture.read(fixture.x)[0]));  // captured, not run

    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagUseNodePriority), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(cudaGraphLaunch(exec, fixture.a), cudaSuccess);
      launch(fixture.a, 4, 256, map, fixture.x, fixture.y);
      EXPECT_EQ(cudaStreamSynchronize(fixture.a), cudaSuccess);
      EXPECT_EQ(fixture.read(fixture.x)[5], 15);
      EXPECT_EQ(fixture.read(fixture.y)[1023], 31);
    }
    ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  }
}

TEST(Capture, BranchesOfAGraphAreNotOrdered) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Fixture fixture(seed);
    ASSERT_EQ(begin(fixture), cudaSuccess);
    launch(fixture.a, 4, 256, set, fixture.x, 1.0f);
    fixture.order(fixture.b, fixture.a, fixture.event);
    launch(fixture.a, 4, 256, set, fixture.x, 2.0f);
    launch(fixture.b, 4, 256, map, fixture.x, fixture.y);
    fixture.order(fixture.a, fixture.b, fixture.joined);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(fixture.a, &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaGraphInstantiateWithFlags(&exec, graph), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(exec, fixture.a), cudaSuccess);
    wrong += fixture.read(fixture.y)[0] != 3;
    ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  EXPECT_GT(wrong, 20);
  EXPECT_LT(wrong, 80);
}

TEST(Capture, ForkWithoutJoinIsRefused) {
  Fixture fixture;
  ASSERT_EQ(begin(fixture), cudaSuccess);
  fork_and_join(fixture, 3, false);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(fixture.a, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  launch(fixture.b, 1, 1, set, fixture.x, 4.0f);  // both streams work after the failed capture
  EXPECT_EQ(fixture.read(fixture.x)[0], 4);
}

TEST(Capture, EnqueuedHostWorkIsCaptured) {
  Fixture fixture;
  int runs = 0;
  ASSERT_EQ(begin(fixture), cudaSuccess);
  emulator::enqueue(fixture.a, [&] { ++runs; });
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(fixture.a, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(exec, fixture.b), cudaSuccess);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(cudaStreamSynchronize(fixture.b), cudaSuccess);
  EXPECT_EQ(runs, 3);
  ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

void expect_refused(const char* what, cudaError_t expected, const std::function<cudaError_t(Fixture&)>& call) {
  SCOPED_TRACE(what);
  Fixture fixture;
  ASSERT_EQ(begin(fixture), cudaSuccess);
  launch(fixture.a, 4, 256, set, fixture.x, 1.0f);
  EXPECT_EQ(cudaEventRecord(fixture.event, fixture.a), cudaSuccess);
  EXPECT_EQ(call(fixture), expected);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(fixture.a, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventQuery(fixture.event), cudaErrorCapturedEvent);  // also after the capture
  cudaGetLastError();
}

TEST(Capture, CallsThatWaitAllocateOrCopyAreRefused) {
  const auto unsupported = cudaErrorStreamCaptureUnsupported;
  float value = 0;
  void* memory = nullptr;
  expect_refused("malloc", unsupported, [&](Fixture&) { return cudaMalloc(&memory, 4); });
  expect_refused("stream synchronize", unsupported, [](Fixture& fixture) { return cudaStreamSynchronize(fixture.a); });
  expect_refused("device synchronize", unsupported, [](Fixture&) { return cudaDeviceSynchronize(); });
  expect_refused("event query", unsupported, [](Fixture& fixture) { return cudaEventQuery(fixture.event); });
  expect_refused("memset", unsupported, [](Fixture& fixture) { return cudaMemset(fixture.x, 0, 4); });
  expect_refused("pageable download", unsupported, [&](Fixture& fixture) {
    return cudaMemcpyAsync(&value, fixture.x, sizeof(value), cudaMemcpyDeviceToHost, fixture.a);
  });
  expect_refused("uncaptured event", cudaErrorStreamCaptureIsolation, [](Fixture& fixture) {
    EXPECT_EQ(cudaEventRecord(fixture.joined, fixture.b), cudaSuccess);
    return cudaStreamWaitEvent(fixture.a, fixture.joined);
  });
}

TEST(Capture, OtherThreadsMayWaitDuringACapture) {
  Fixture fixture;
  ASSERT_EQ(cudaEventRecord(fixture.event, fixture.b), cudaSuccess);
  ASSERT_EQ(begin(fixture), cudaSuccess);
  launch(fixture.a, 4, 256, set, fixture.x, 1.0f);
  std::thread([&] {
    while (cudaEventQuery(fixture.event) == cudaErrorNotReady) {
    }
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(fixture.a, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace ddp
