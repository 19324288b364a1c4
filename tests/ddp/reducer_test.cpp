// The reducer, with ranks as threads. Gradients are small integers, so sums are exact.
#include "ddp/reducer.h"

#include "comm/casting_communicator.h"
#include "core/bf16.h"
#include "core/error.h"
#include "tests/comm/forwarding_communicator.h"
#include "tests/comm/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <tuple>

namespace ddp {
namespace {

constexpr int64_t kTrailer = 5;
constexpr BucketCaps kSmallCaps{.cap_mb = 0.002, .first_cap_mb = 0.001};  // 524 and 262 elements

float gradient(int rank, int64_t i, int step) { return static_cast<float>((i * 3 + rank * 5 + step) % 17); }

void fill(std::vector<float>& flat, int rank, int64_t offset, int64_t count, int step) {
  for (int64_t i = offset; i < offset + count; ++i) flat[i] = gradient(rank, i, step);
}

// A setting of gradient communication: data type and sharding.
struct Setting {
  const char* name;
  DType dtype = DType::f32;
  bool sharded = false;
  bool trailer_in_last_bucket() const { return dtype == DType::f32 && !sharded; }
};

// A CastingCommunicator as a replica makes it; null for f32. `buffer`: comm_buffer.
std::unique_ptr<Communicator> make_casting(const Setting& setting, Communicator& inner, std::span<float> gradients,
                                           std::vector<uint16_t>& buffer) {
  if (setting.dtype == DType::f32) return nullptr;
  const auto each = [](int64_t offset, int64_t count, auto&& convert) {
    for (int64_t i = offset; i < offset + count; ++i) convert(i);
  };
  return make_casting_communicator(
      inner, {.gradients = gradients,
              .comm_buffer = buffer.data(),
              .cast_to_comm =
                  [=, &buffer](int64_t offset, int64_t count) {
                    each(offset, count, [&](int64_t i) { buffer[i] = bf16_of_float(gradients[i]); });
                  },
              .cast_from_comm =
                  [=, &buffer](int64_t offset, int64_t count) {
                    each(offset, count, [&](int64_t i) { gradients[i] = float_of_bf16(buffer[i]); });
                  }});
}

// Records the spans that are reduced.
class RecordingCommunicator final : public ForwardingCommunicator {
 public:
  struct Seen {
    bool sharded;
    DeviceSpan span;
  };
  using ForwardingCommunicator::ForwardingCommunicator;
  Sequence all_reduce(DeviceSpan span) override {
    seen.push_back({false, span});
    return inner_.all_reduce(span);
  }
  Sequence reduce_scatter(DeviceSpan span) override {
    seen.push_back({true, span});
    return inner_.reduce_scatter(span);
  }

  std::vector<Seen> seen;
};

class ReducerWorlds : public ::testing::TestWithParam<std::tuple<int, Setting>> {};
INSTANTIATE_TEST_SUITE_P(
    , ReducerWorlds,
    ::testing::Combine(::testing::Values(1, 2, 3, 4),
                       ::testing::Values(Setting{"f32"}, Setting{"f32sharded", DType::f32, true},
                                         Setting{"bf16", DType::bf16}, Setting{"bf16sharded", DType::bf16, true})),
    [](const auto& test) { return fmt::format("{}ranks_{}", std::get<0>(test.param), std::get<1>(test.param).name); });

TEST_P(ReducerWorlds, ScrambledReadinessLaunchesInPlanOrder) {
  const auto [world, setting] = GetParam();
  std::vector<int64_t> sizes{0, 1, 33, 7, 0, 2000, 5, 64, 129, 300, 250, 1, 90, 0, 11};  // 2000 is over a bucket
  const int64_t unit = setting.sharded ? partition_alignment(world) : 1;
  for (int64_t& size : sizes) size = (size + unit - 1) / unit * unit;
  run_ranks(world, [&, setting = setting](Communicator& local) {
    RecordingCommunicator comm(local);
    const BucketPlan plan = plan_buckets(sizes, comm.size(), kTrailer, kSmallCaps);
    ASSERT_GT(plan.buckets.size(), 4u);
    std::vector<float> flat(plan.total);
    std::vector<uint16_t> buffer(plan.padded);
    const auto casting = make_casting(setting, comm, std::span(flat).first(plan.padded), buffer);
    Reducer reducer(plan, casting ? *casting : comm, flat,
                    {.sharded = setting.sharded, .trailer_in_last_bucket = !casting});
    ASSERT_EQ(reducer.trailer_in_last_bucket(), setting.trailer_in_last_bucket());
    ASSERT_EQ(reducer.collectives(), std::ssize(plan.buckets) + (setting.trailer_in_last_bucket() ? 0 : 1));
    std::vector<bool> summed(plan.total, !setting.sharded);
    std::fill(summed.begin() + plan.padded, summed.end(), true);
    if (setting.sharded)
      for (const Partition& part : partitions_of(plan, comm.rank(), comm.size()))
        std::fill_n(summed.begin() + part.begin, part.count, true);

    std::vector<ParameterId> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(comm.rank());
    for (int step = 0; step < 20; ++step) {
      comm.seen.clear();
      std::shuffle(order.begin(), order.end(), random);
      std::fill(flat.begin() + plan.gradients, flat.end(), 0.0f);
      reducer.begin();
      ASSERT_TRUE(comm.seen.empty());
      for (const ParameterId id : order) {
        fill(flat, comm.rank(), plan.parameter_offsets[id], plan.parameter_counts[id], step);
        if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
        reducer.ready(id);
      }
      ASSERT_EQ(std::ssize(comm.seen), reducer.collectives() - 1);  // the last collective waits for the trailer
      fill(flat, comm.rank(), plan.padded, kTrailer, step);
      reducer.finish();
      ASSERT_EQ(std::ssize(comm.seen), reducer.collectives());
      for (size_t b = 0; b < plan.buckets.size(); ++b) {
        const auto& [sharded, span] = comm.seen[b];
        const Bucket& bucket = plan.buckets[b];
        const bool with_trailer = setting.trailer_in_last_bucket() && b + 1 == plan.buckets.size();
        ASSERT_EQ(sharded, setting.sharded);
        ASSERT_EQ(span.dtype, setting.dtype);
        ASSERT_EQ(span.data, setting.dtype == DType::f32 ? static_cast<void*>(flat.data() + bucket.offset)
                                                         : static_cast<void*>(buffer.data() + bucket.offset));
        ASSERT_EQ(span.count, bucket.count + (with_trailer ? kTrailer : 0));
      }
      if (!setting.trailer_in_last_bucket()) {
        const auto& [sharded, span] = comm.seen.back();
        ASSERT_FALSE(sharded);
        ASSERT_EQ(span.data, flat.data() + plan.padded);
        ASSERT_EQ(span.count, kTrailer);
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

TEST(Reducer, CallsTheHookForEachLaunchAndThenForTheWait) {
  run_ranks(1, [](Communicator& local) {
    const BucketPlan plan = plan_buckets(std::vector<int64_t>{16, 16, 160, 16, 16, 64, 16}, 1, kTrailer, {});
    ASSERT_EQ(plan.buckets.size(), 3u);
    std::vector<float> flat(plan.total);
    for (const bool sharded : {false, true}) {
      RecordingCommunicator comm(local);
      std::vector<int64_t> numbers, launched;
      Reducer reducer(plan, comm, flat, {.sharded = sharded});
      reducer.set_launch_hook([&](int number, const std::function<void()>& run) {
        numbers.push_back(number);
        launched.push_back(std::ssize(comm.seen));
        run();
      });
      reducer.begin();
      for (ParameterId id = 1; id < 7; ++id) reducer.ready(id);
      EXPECT_TRUE(comm.seen.empty());
      reducer.ready(0);
      EXPECT_EQ(std::ssize(comm.seen), sharded ? 3 : 2);
      reducer.finish();
      const auto expected = sharded ? std::vector<int64_t>{0, 1, 2, 3, 4} : std::vector<int64_t>{0, 1, 2, 3};
      EXPECT_EQ(numbers, expected);
      EXPECT_EQ(launched, expected);
    }
  });
}

// A span outside of the gradients is not cast.
TEST(CastingCommunicator, LeavesOtherSpansAlone) {
  run_ranks(2, [](Communicator& local) {
    RecordingCommunicator comm(local);
    std::vector<float> flat{1, 2, 3, 4, 1.0f / 3, 5}, elsewhere(2, 1.0f / 3);
    std::vector<uint16_t> buffer(4);
    const auto casting = make_casting({"bf16", DType::bf16}, comm, std::span(flat).first(4), buffer);
    casting->all_reduce(DeviceSpan::of(std::span(flat).first(4)));
    casting->all_reduce(DeviceSpan::of(std::span(flat).subspan(4)));
    const auto last = casting->all_reduce(DeviceSpan::of(elsewhere));
    EXPECT_EQ(last, 3u);
    casting->wait(last);
    EXPECT_EQ(flat, (std::vector<float>{2, 4, 6, 8, 2.0f / 3, 10}));
    EXPECT_EQ(elsewhere, std::vector<float>(2, 2.0f / 3));
    EXPECT_EQ(comm.seen[0].span.dtype, DType::bf16);
    EXPECT_EQ(comm.seen[1].span.dtype, DType::f32);
    EXPECT_EQ(comm.seen[2].span.dtype, DType::f32);
    EXPECT_THROW(casting->all_reduce(DeviceSpan::of(std::span(flat).subspan(2, 3))), Error);  // crosses the end
  });
}

TEST(CastingCommunicator, NeedsItsBuffer) {
  run_ranks(1, [](Communicator& comm) {
    std::vector<float> flat(4);
    EXPECT_THROW(make_casting_communicator(comm, {.gradients = flat}), Error);
  });
}

TEST(Reducer, LaunchesABucketOnceItAndEarlierBucketsAreReady) {
  run_ranks(1, [](Communicator& local) {
    RecordingCommunicator comm(local);
    const BucketPlan plan = plan_buckets(std::vector<int64_t>{10, 10, 100, 10, 10, 40, 2}, 1, kTrailer, {});
    ASSERT_EQ(plan.buckets.size(), 3u);  // 0 1 | 2 3 4 5 | 6 trailer
    std::vector<float> flat(plan.total);
    Reducer reducer(plan, comm, flat);
    reducer.begin();
    for (const auto& [id, launched] :
         std::vector<std::pair<ParameterId, int>>{{6, 0}, {1, 0}, {5, 0}, {4, 0}, {0, 1}, {2, 1}, {3, 2}}) {
      reducer.ready(id);
      ASSERT_EQ(std::ssize(comm.seen), launched) << "after " << id;
    }
    reducer.finish();
    EXPECT_EQ(std::ssize(comm.seen), 3);
  });
}

std::string thrown_by(const std::function<void(Reducer&)>& step) {
  std::string text = "nothing was thrown";
  run_ranks(1, [&](Communicator& comm) {
    const BucketPlan plan = plan_buckets(std::vector<int64_t>{4, 3, 2}, 1, kTrailer, {});
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

// Bucket 1 is ready first and waits for bucket 0; the last one waits for the trailer.
TEST(Reducer, SaysWhenACollectiveIsReadyAndWhenItIsLaunched) {
  run_ranks(2, [](Communicator& comm) {
    const BucketPlan plan =
        plan_buckets(std::vector<int64_t>{200, 200, 200, 200}, 2, kTrailer, {.cap_mb = 0.001, .first_cap_mb = 0.001});
    std::vector<float> flat(plan.total);
    Reducer reducer(plan, comm, flat);
    ASSERT_GE(reducer.collectives(), 3);
    std::vector<std::string> seen;
    reducer.set_ready_hook([&](int collective) { seen.push_back(fmt::format("ready {}", collective)); });
    reducer.set_launch_hook([&](int collective, const auto& run) {
      if (collective < reducer.collectives()) seen.push_back(fmt::format("launched {}", collective));
      run();
    });
    reducer.begin();
    const auto make_ready = [&](int bucket) {
      for (ParameterId id = plan.buckets[bucket].first; id < plan.buckets[bucket].end; ++id) reducer.ready(id);
    };
    for (int bucket = 2; bucket < reducer.collectives(); ++bucket) make_ready(bucket);
    make_ready(1);
    make_ready(0);
    reducer.finish();
    std::vector<std::string> expected;
    const int last = reducer.collectives() - 1;
    for (int bucket = 2; bucket < last; ++bucket) expected.push_back(fmt::format("ready {}", bucket));
    for (const char* text : {"ready 1", "ready 0", "launched 0", "launched 1"}) expected.emplace_back(text);
    for (int bucket = 2; bucket < last; ++bucket) expected.push_back(fmt::format("launched {}", bucket));
    expected.push_back(fmt::format("ready {}", last));
    expected.push_back(fmt::format("launched {}", last));
    EXPECT_EQ(seen, expected);
  });
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
    for (const ParameterId id : {0, 1}) reducer.ready(id);
    reducer.finish();
  });
  EXPECT_NE(text.find("parameter 2 (2 elements"), text.npos) << text;
  EXPECT_NE(text.find("never"), text.npos) << text;
}

TEST(Reducer, RefusesReadyBeforeTheFirstBegin) {
  run_ranks(1, [](Communicator& comm) {
    const BucketPlan plan = plan_buckets(std::vector<int64_t>{4, 3, 2}, 1, kTrailer, {});
    std::vector<float> flat(plan.total);
    Reducer reducer(plan, comm, flat);
    EXPECT_THROW(reducer.ready(0), Error);
    EXPECT_THROW(reducer.finish(), Error);
    EXPECT_THROW(Reducer(plan, comm, std::span(flat).first(3)), Error);
  });
}

}  // namespace
}  // namespace ddp
