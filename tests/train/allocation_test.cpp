// Law 5: the step does not allocate. Counts what the rank's own thread takes from the heap, over steps of LeNet.
#include "device/cpu/device.h"
#include "nn/models.h"
#include "ops/cpu/ops.h"
#include "tests/train/rig.h"
#include "tests/train/small.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

namespace {

thread_local bool counting = false;
thread_local int allocations = 0;

}  // namespace

void* operator new(size_t bytes) {
  if (counting) ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace ddp::testing {
namespace {

// A world of one rank, whose collectives are done at once.
class Alone final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Sequence sum(WireSpan) override { return ++done_; }
  Sequence reduce_scatter(WireSpan) override { return ++done_; }
  Sequence all_gather(WireSpan) override { return ++done_; }
  Sequence broadcast(WireSpan, int) override { return ++done_; }
  void wait(Sequence) override {}
  void progress() override {}
  Sequence completed() const override { return done_; }
  void sum_host(std::span<double>) override {}
  void barrier() override {}
  std::unique_ptr<Communicator> split(int) override { return std::make_unique<Alone>(); }

 private:
  Sequence done_ = 0;
};

int allocations_of(const std::function<void()>& work) {
  allocations = 0;
  counting = true;
  work();
  counting = false;
  return allocations;
}

TEST(Step, DoesNotAllocate) {
  const MemoryDataset data = small_data(300, {28, 28, 1});
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  Alone alone;
  Rig rig({.batch_size = 64}, make_model("lenet", {28, 28, 1}, 4), data, *device, *ops, alone);
  DeviceData on_device(*device, data, rig.largest(), 0);
  Feed feed(on_device, rig.sampler(), 0, 40, kTrainingFences);
  Watchdog watchdog({.limit = std::chrono::seconds(60), .buckets = 3, .expired = [](const std::string&) {}}, alone);
  Step step(rig.replica, {}, &watchdog);
  const Step::NextShard next = [&]() -> const Shard& { return feed.next(); };
  for (int i = 0; i < 40; ++i) {  // short batches and new epochs among them
    const int taken = allocations_of([&] { step.run(next, 0.01); });
    if (i >= 5) {
      EXPECT_EQ(taken, 0) << "in step " << i;
    }
  }
}

TEST(Step, AnAllocationWouldBeSeen) {
  EXPECT_EQ(allocations_of([] { std::vector<int>(3).front() = 1; }), 1);
}

}  // namespace
}  // namespace ddp::testing
