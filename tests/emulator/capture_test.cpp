// Captures, and the graphs they become.
#include "rig.h"

#include <cmath>
#include <thread>

namespace ddp {
namespace {

cudaError_t begin(const Rig& rig) { return cudaStreamBeginCapture(rig.a, cudaStreamCaptureModeThreadLocal); }

// x = value on a, y = 2x + 1 on b, x = 2y + 1 on a.
void fork_and_join(const Rig& rig, float value, bool join) {
  launch(rig.a, 4, 256, set, rig.x, value);
  rig.order(rig.b, rig.a, rig.event);
  launch(rig.b, 4, 256, map, rig.x, rig.y);
  if (!join) return;
  rig.order(rig.a, rig.b, rig.joined);
  launch(rig.a, 4, 256, map, rig.y, rig.x);
}

TEST(Capture, ReplaysForkAndJoin) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rig rig(seed);
    ASSERT_EQ(begin(rig), cudaSuccess);
    fork_and_join(rig, 3, true);
    cudaStreamCaptureStatus status{};
    EXPECT_EQ(cudaStreamIsCapturing(rig.b, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(rig.a, &graph), cudaSuccess);
    EXPECT_EQ(cudaStreamIsCapturing(rig.b, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
    EXPECT_TRUE(std::isnan(rig.read(rig.x)[0]));  // recorded, not run

    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagUseNodePriority), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(cudaGraphLaunch(exec, rig.a), cudaSuccess);
      launch(rig.a, 4, 256, map, rig.x, rig.y);
      EXPECT_EQ(cudaStreamSynchronize(rig.a), cudaSuccess);
      EXPECT_EQ(rig.read(rig.x)[5], 15);
      EXPECT_EQ(rig.read(rig.y)[1023], 31);
    }
    ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  }
}

TEST(Capture, BranchesOfAGraphAreNotOrdered) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rig rig(seed);
    ASSERT_EQ(begin(rig), cudaSuccess);
    launch(rig.a, 4, 256, set, rig.x, 1.0f);
    rig.order(rig.b, rig.a, rig.event);
    launch(rig.a, 4, 256, set, rig.x, 2.0f);
    launch(rig.b, 4, 256, map, rig.x, rig.y);
    rig.order(rig.a, rig.b, rig.joined);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(rig.a, &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaGraphInstantiateWithFlags(&exec, graph), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(exec, rig.a), cudaSuccess);
    wrong += rig.read(rig.y)[0] != 3;
    ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  EXPECT_GT(wrong, 20);
  EXPECT_LT(wrong, 80);
}

TEST(Capture, AForkThatIsNotJoinedIsRefused) {
  Rig rig;
  ASSERT_EQ(begin(rig), cudaSuccess);
  fork_and_join(rig, 3, false);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(rig.a, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  launch(rig.b, 1, 1, set, rig.x, 4.0f);  // both streams work again
  EXPECT_EQ(rig.read(rig.x)[0], 4);
}

TEST(Capture, EnqueuedWorkIsCapturedToo) {
  Rig rig;
  int runs = 0;
  ASSERT_EQ(begin(rig), cudaSuccess);
  emulator::enqueue(rig.a, [&] { ++runs; });
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(rig.a, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(exec, rig.b), cudaSuccess);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(cudaStreamSynchronize(rig.b), cudaSuccess);
  EXPECT_EQ(runs, 3);
  ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

void expect_refused(const char* what, cudaError_t expected, const std::function<cudaError_t(Rig&)>& call) {
  SCOPED_TRACE(what);
  Rig rig;
  ASSERT_EQ(begin(rig), cudaSuccess);
  launch(rig.a, 4, 256, set, rig.x, 1.0f);
  EXPECT_EQ(cudaEventRecord(rig.event, rig.a), cudaSuccess);
  EXPECT_EQ(call(rig), expected);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(rig.a, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventQuery(rig.event), cudaErrorCapturedEvent);  // nor afterwards
  cudaGetLastError();
}

TEST(Capture, CallsThatWaitAllocateOrCopyAreRefused) {
  const auto unsupported = cudaErrorStreamCaptureUnsupported;
  float value = 0;
  void* memory = nullptr;
  expect_refused("malloc", unsupported, [&](Rig&) { return cudaMalloc(&memory, 4); });
  expect_refused("stream synchronize", unsupported, [](Rig& rig) { return cudaStreamSynchronize(rig.a); });
  expect_refused("device synchronize", unsupported, [](Rig&) { return cudaDeviceSynchronize(); });
  expect_refused("event query", unsupported, [](Rig& rig) { return cudaEventQuery(rig.event); });
  expect_refused("memset", unsupported, [](Rig& rig) { return cudaMemset(rig.x, 0, 4); });
  expect_refused("pageable download", unsupported, [&](Rig& rig) {
    return cudaMemcpyAsync(&value, rig.x, sizeof(value), cudaMemcpyDeviceToHost, rig.a);
  });
  expect_refused("uncaptured event", cudaErrorStreamCaptureIsolation, [](Rig& rig) {
    EXPECT_EQ(cudaEventRecord(rig.joined, rig.b), cudaSuccess);
    return cudaStreamWaitEvent(rig.a, rig.joined);
  });
}

TEST(Capture, OtherThreadsMayWaitMeanwhile) {
  Rig rig;
  ASSERT_EQ(cudaEventRecord(rig.event, rig.b), cudaSuccess);
  ASSERT_EQ(begin(rig), cudaSuccess);
  launch(rig.a, 4, 256, set, rig.x, 1.0f);
  std::thread([&] {
    while (cudaEventQuery(rig.event) == cudaErrorNotReady) {
    }
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(rig.a, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace ddp
