// The reducer, with ranks as threads. Gradients are small integers, so sums are exact.
#include "ddp/reducer.h"

#include "core/bf16.h"
#include "core/error.h"
#include "tests/threads/ranks.h"
#include "tests/train/faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <tuple>

namespace ddp {
namespace {

constexpr int64_t kTail = 5;
constexpr BucketCaps kSmallCaps{.cap_mb = 0.002, .first_cap_mb = 0.001};  // 524 and 262 elements

float gradient(int rank, int64_t i, int step) { return static_cast<float>((i * 3 + rank * 5 + step) % 17); }

void fill(std::vector<float>& flat, int rank, int64_t offset, int64_t count, int step) {
  for (int64_t i = offset; i < offset + count; ++i) flat[i] = gradient(rank, i, step);
}

// A gradient communication setting: data type and sharding. make_wire adds the communication buffer and the casts.
struct Wire {
  const char* name;
  DType dtype = DType::f32;
  bool scatter = false;
  bool tail_rides() const { return dtype == DType::f32 && !scatter; }
};

GradientWire make_wire(const Wire& wire, std::vector<float>& flat, std::vector<uint16_t>& shadow) {
  GradientWire made{.dtype = wire.dtype, .scatter = wire.scatter};
  if (wire.dtype == DType::f32) return made;
  made.shadow = shadow.data();
  made.to_shadow = [&](int64_t offset, int64_t count) {
    for (int64_t i = offset; i < offset + count; ++i) shadow[i] = bf16_of_float(flat[i]);
  };
  made.from_shadow = [&](int64_t offset, int64_t count) {
    for (int64_t i = offset; i < offset + count; ++i) flat[i] = float_of_bf16(shadow[i]);
  };
  return made;
}

// Records the spans that are reduced.
class RecordingCommunicator final : public testing::FaultyCommunicator {
 public:
  struct Seen {
    bool scattered;
    DeviceSpan span;
  };
  explicit RecordingCommunicator(Communicator& inner)
      : FaultyCommunicator(inner, [this](DeviceSpan span) {
          return seen.push_back({false, span}), true;
        }) {}
  Sequence reduce_scatter(DeviceSpan span) override {
    seen.push_back({true, span});
    return FaultyCommunicator::reduce_scatter(span);
  }

  std::vector<Seen> seen;
};

class ReducerWorlds : public ::testing::TestWithParam<std::tuple<int, Wire>> {};
INSTANTIATE_TEST_SUITE_P(
    Sizes, ReducerWorlds,
    ::testing::Combine(::testing::Values(1, 2, 3, 4),
                       ::testing::Values(Wire{"f32"}, Wire{"f32scattered", DType::f32, true}, Wire{"bf16", DType::bf16},
                                         Wire{"bf16scattered", DType::bf16, true})),
    [](const auto& test) { return fmt::format("{}ranks_{}", std::get<0>(test.param), std::get<1>(test.param).name); });

TEST_P(ReducerWorlds, ScrambledReadinessLaunchesInPlanOrder) {
  const auto [world, wire] = GetParam();
  std::vector<int64_t> sizes{0, 1, 33, 7, 0, 2000, 5, 64, 129, 300, 250, 1, 90, 0, 11};  // 2000 exceeds a bucket
  const int64_t unit = wire.scatter ? scatter_alignment(world) : 1;
  for (int64_t& size : sizes) size = (size + unit - 1) / unit * unit;
  run_ranks(world, [&, wire = wire](Communicator& local) {
    RecordingCommunicator comm(local);
    const BucketPlan plan = plan_buckets(sizes, comm.size(), kTail, kSmallCaps);
    ASSERT_GT(plan.buckets.size(), 4u);
    std::vector<float> flat(plan.total);
    std::vector<uint16_t> shadow(plan.padded);
    Reducer reducer(plan, comm, flat, make_wire(wire, flat, shadow));
    ASSERT_EQ(reducer.collectives(), std::ssize(plan.buckets) + (wire.tail_rides() ? 0 : 1));
    std::vector<bool> summed(plan.total, !wire.scatter);
    std::fill(summed.begin() + plan.padded, summed.end(), true);
    if (wire.scatter)
      for (const Part& part : parts_of(plan, comm.rank(), comm.size()))
        std::fill_n(summed.begin() + part.begin, part.count, true);

    std::vector<ParameterId> order(sizes.size() + 1);
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(comm.rank());
    for (int step = 0; step < 20; ++step) {
      comm.seen.clear();
      std::shuffle(order.begin(), order.end(), random);
      std::fill(flat.begin() + plan.gradients, flat.end(), 0.0f);
      reducer.begin();
      ASSERT_EQ(reducer.launched(), 0);
      for (const ParameterId id : order) {
        if (id == reducer.tail())
          fill(flat, comm.rank(), plan.padded, kTail, step);
        else
          fill(flat, comm.rank(), plan.parameter_offsets[id], plan.parameter_counts[id], step);
        if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
        reducer.ready(id);
      }
      ASSERT_EQ(reducer.launched(), reducer.collectives());
      reducer.finish();

      ASSERT_EQ(std::ssize(comm.seen), reducer.collectives());
      for (size_t b = 0; b < plan.buckets.size(); ++b) {
        const auto& [scattered, span] = comm.seen[b];
        const Bucket& bucket = plan.buckets[b];
        const bool with_tail = wire.tail_rides() && b + 1 == plan.buckets.size();
        ASSERT_EQ(scattered, wire.scatter);
        ASSERT_EQ(span.dtype, wire.dtype);
        ASSERT_EQ(span.data, wire.dtype == DType::f32 ? static_cast<void*>(flat.data() + bucket.offset)
                                                      : static_cast<void*>(shadow.data() + bucket.offset));
        ASSERT_EQ(span.count, bucket.count + (with_tail ? kTail : 0));
      }
      if (!wire.tail_rides()) {
        const auto& [scattered, span] = comm.seen.back();
        ASSERT_FALSE(scattered);
        ASSERT_EQ(span.data, flat.data() + plan.padded);
        ASSERT_EQ(span.count, kTail);
        ASSERT_EQ(span.dtype, DType::f32);
      }
      for (int64_t i = 0; i < plan.total; ++i) {
        if (!summed[i]) continue;
        float expected = 0;
        if (i < plan.gradients || i >= plan.padded)
          for (int r = 0; r < comm.size(); ++r) expected += gradient(r, i, step);
        ASSERT_EQ(flat[i], expected) << "element " << i << " at step " << step;
      }
    }
  });
}

TEST(Reducer, SeparateTrailerWaitsForTheBuckets) {
  run_ranks(1, [](Communicator& comm) {
    const BucketPlan plan = plan_buckets(std::vector<int64_t>{16, 16, 160, 16, 16, 64, 16}, 1, kTail, {});
    std::vector<float> flat(plan.total);
    std::vector<int> around;
    Reducer reducer(plan, comm, flat, {.scatter = true});
    reducer.around_launch([&](int bucket, const std::function<void()>& launch) {
      around.push_back(bucket);
      launch();
    });
    reducer.begin();
    reducer.ready(reducer.tail());
    for (ParameterId id = 1; id < reducer.tail(); ++id) reducer.ready(id);
    EXPECT_EQ(reducer.launched(), 0);
    reducer.ready(0);
    EXPECT_EQ(reducer.launched(), 4);
    EXPECT_EQ(around, (std::vector<int>{0, 1, 2}));  // the hook does not see the trailer
    reducer.finish();
  });
}

TEST(Reducer, Bf16NeedsACommBuffer) {
  run_ranks(1, [](Communicator& comm) {
    const BucketPlan plan = plan_buckets(std::vector<int64_t>{4, 3, 2}, 1, kTail, {});
    std::vector<float> flat(plan.total);
    EXPECT_THROW(Reducer(plan, comm, flat, {.dtype = DType::bf16}), Error);
  });
}

TEST(Reducer, LaunchesABucketOnceItAndEarlierBucketsAreReady) {
  run_ranks(1, [](Communicator& comm) {
    const BucketPlan plan = plan_buckets(std::vector<int64_t>{10, 10, 100, 10, 10, 40, 2}, 1, kTail, {});
    ASSERT_EQ(plan.buckets.size(), 3u);  // 0 1 | 2 3 4 5 | 6 tail
    std::vector<float> flat(plan.total);
    Reducer reducer(plan, comm, flat);
    reducer.begin();
    for (const auto& [id, launched] : std::vector<std::pair<ParameterId, int>>{
             {6, 0}, {reducer.tail(), 0}, {1, 0}, {5, 0}, {4, 0}, {0, 1}, {2, 1}, {3, 3}}) {
      reducer.ready(id);
      ASSERT_EQ(reducer.launched(), launched) << "after " << id;
    }
    reducer.finish();
  });
}

std::string thrown_by(const std::function<void(Reducer&)>& step) {
  std::string text = "nothing was thrown";
  run_ranks(1, [&](Communicator& comm) {
    const BucketPlan plan = plan_buckets(std::vector<int64_t>{4, 3, 2}, 1, kTail, {});
    std::vector<float> flat(plan.total);
    Reducer reducer(plan, comm, flat);
    reducer.begin();
    try {
      step(reducer);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::internal);
      text = e.what();
    }
  });
  return text;
}

TEST(Reducer, ErrorNamesAParameterThatIsReadyTwice) {
  const std::string text = thrown_by([](Reducer& reducer) {
    reducer.ready(1);
    reducer.ready(1);
  });
  EXPECT_NE(text.find("parameter 1 (3 elements"), text.npos) << text;
  EXPECT_NE(text.find("twice"), text.npos) << text;
}

TEST(Reducer, ErrorNamesAParameterThatIsNeverReady) {
  const std::string text = thrown_by([](Reducer& reducer) {
    for (const ParameterId id : {0, 1, 3}) reducer.ready(id);
    reducer.finish();
  });
  EXPECT_NE(text.find("parameter 2 (2 elements"), text.npos) << text;
  EXPECT_NE(text.find("never"), text.npos) << text;
}

TEST(Reducer, ErrorNamesAMissingTrailer) {
  const std::string text = thrown_by([](Reducer& reducer) {
    for (const ParameterId id : {0, 1, 2}) reducer.ready(id);
    reducer.finish();
  });
  EXPECT_NE(text.find("the tail was never"), text.npos) << text;
}

TEST(Reducer, RefusesReadyBeforeTheFirstBegin) {
  run_ranks(1, [](Communicator& comm) {
    const BucketPlan plan = plan_buckets(std::vector<int64_t>{4, 3, 2}, 1, kTail, {});
    std::vector<float> flat(plan.total);
    Reducer reducer(plan, comm, flat);
    EXPECT_THROW(reducer.ready(0), Error);
    EXPECT_THROW(Reducer(plan, comm, std::span(flat).first(3)), Error);
  });
}

}  // namespace
}  // namespace ddp
