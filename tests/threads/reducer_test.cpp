// The reducer over ranks that are threads. Gradients are small integers, so sums are exact.
#include "ddp/reducer.h"

#include "core/error.h"
#include "tests/threads/ranks.h"
#include "tests/train/faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

namespace ddp {
namespace {

constexpr int64_t kTicket = 5;
constexpr BucketCaps kSmallCaps{.cap_mb = 0.002, .first_cap_mb = 0.001};  // 524 and 262 elements

float gradient(int rank, int64_t i, int step) { return static_cast<float>((i * 3 + rank * 5 + step) % 17); }

void fill(std::vector<float>& flat, int rank, int64_t offset, int64_t count, int step) {
  for (int64_t i = offset; i < offset + count; ++i) flat[i] = gradient(rank, i, step);
}

class ReducerWorlds : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ReducerWorlds, ::testing::Values(1, 2, 3, 4));

TEST_P(ReducerWorlds, ScrambledReadinessLaunchesInPlanOrder) {
  const std::vector<int64_t> sizes{0, 1, 33, 7, 0, 2000, 5, 64, 129, 300, 250, 1, 90, 0, 11};  // 2000 is over a bucket
  run_ranks(GetParam(), [&](Communicator& local) {
    std::vector<WireSpan> sums;
    testing::TamperingCommunicator comm(local, [&](WireSpan span) {
      sums.push_back(span);
      return true;
    });
    const BucketPlan plan = plan_buckets(sizes, comm.size(), kTicket, kSmallCaps);
    ASSERT_GT(plan.buckets.size(), 4u);
    std::vector<float> flat(plan.total);
    Reducer reducer(plan, comm, flat);
    std::vector<ParameterId> order(sizes.size() + 1);
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(comm.rank());
    for (int step = 0; step < 20; ++step) {
      sums.clear();
      std::shuffle(order.begin(), order.end(), random);
      std::fill(flat.begin() + plan.gradients, flat.end(), 0.0f);
      reducer.begin();
      ASSERT_EQ(reducer.launched(), 0);
      for (const ParameterId id : order) {
        if (id == reducer.ticket())
          fill(flat, comm.rank(), plan.padded, kTicket, step);
        else
          fill(flat, comm.rank(), plan.parameter_offsets[id], plan.parameter_counts[id], step);
        if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
        reducer.ready(id);
      }
      ASSERT_EQ(reducer.launched(), static_cast<int>(plan.buckets.size()));
      reducer.finish();

      ASSERT_EQ(sums.size(), plan.buckets.size());
      for (size_t b = 0; b < plan.buckets.size(); ++b) {
        ASSERT_EQ(sums[b].data, flat.data() + plan.buckets[b].offset);
        ASSERT_EQ(sums[b].count, plan.buckets[b].count);
      }
      for (int64_t i = 0; i < plan.total; ++i) {
        float expected = 0;
        if (i < plan.gradients || i >= plan.padded)
          for (int r = 0; r < comm.size(); ++r) expected += gradient(r, i, step);
        ASSERT_EQ(flat[i], expected) << "element " << i << " at step " << step;
      }
    }
  });
}

TEST(Reducer, LaunchesABucketAsSoonAsItAndThoseBeforeAreReady) {
  run_ranks(1, [](Communicator& comm) {
    const BucketPlan plan = plan_buckets(std::vector<int64_t>{10, 10, 100, 10, 10, 40, 2}, 1, kTicket, {});
    ASSERT_EQ(plan.buckets.size(), 3u);  // 0 1 | 2 3 4 5 | 6 ticket
    std::vector<float> flat(plan.total);
    Reducer reducer(plan, comm, flat);
    reducer.begin();
    for (const auto& [id, launched] : std::vector<std::pair<ParameterId, int>>{
             {6, 0}, {reducer.ticket(), 0}, {1, 0}, {5, 0}, {4, 0}, {0, 1}, {2, 1}, {3, 3}}) {
      reducer.ready(id);
      ASSERT_EQ(reducer.launched(), launched) << "after " << id;
    }
    reducer.finish();
  });
}

std::string thrown_by(const std::function<void(Reducer&)>& step) {
  std::string text = "nothing was thrown";
  run_ranks(1, [&](Communicator& comm) {
    const BucketPlan plan = plan_buckets(std::vector<int64_t>{4, 3, 2}, 1, kTicket, {});
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

TEST(Reducer, AnnouncedTwiceNamesTheParameter) {
  const std::string text = thrown_by([](Reducer& reducer) {
    reducer.ready(1);
    reducer.ready(1);
  });
  EXPECT_NE(text.find("parameter 1 (3 elements"), text.npos) << text;
  EXPECT_NE(text.find("twice"), text.npos) << text;
}

TEST(Reducer, NeverAnnouncedNamesTheParameter) {
  const std::string text = thrown_by([](Reducer& reducer) {
    for (const ParameterId id : {0, 1, 3}) reducer.ready(id);
    reducer.finish();
  });
  EXPECT_NE(text.find("parameter 2 (2 elements"), text.npos) << text;
  EXPECT_NE(text.find("never"), text.npos) << text;
}

TEST(Reducer, AForgottenTicketIsNamed) {
  const std::string text = thrown_by([](Reducer& reducer) {
    for (const ParameterId id : {0, 1, 2}) reducer.ready(id);
    reducer.finish();
  });
  EXPECT_NE(text.find("the ticket was never"), text.npos) << text;
}

TEST(Reducer, NothingIsReadyBeforeTheFirstBegin) {
  run_ranks(1, [](Communicator& comm) {
    const BucketPlan plan = plan_buckets(std::vector<int64_t>{4, 3, 2}, 1, kTicket, {});
    std::vector<float> flat(plan.total);
    Reducer reducer(plan, comm, flat);
    EXPECT_THROW(reducer.ready(0), Error);
    EXPECT_THROW(Reducer(plan, comm, std::span(flat).first(3)), Error);
  });
}

}  // namespace
}  // namespace ddp
