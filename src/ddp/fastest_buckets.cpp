#include "ddp/fastest_buckets.h"

#include "core/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace ddp {
namespace {

bool is_cost(double ms) { return std::isfinite(ms) && ms >= 0; }

void require_costs(const BucketPlan& plan, const StepCosts& costs) {
  DDP_EXPECT(costs.ready_ms.size() == plan.parameter_counts.size());
  DDP_EXPECT(std::ranges::all_of(costs.ready_ms, is_cost) && std::ranges::is_sorted(costs.ready_ms));
  DDP_EXPECT(is_cost(costs.compute_ms) && is_cost(costs.link.latency_ms) && is_cost(costs.link.ms_per_mib) &&
             is_cost(costs.bucket_ms));
}

// One collective of the model: the parameters [first, end) after the collectives before have ended.
class CollectiveModel {
 public:
  CollectiveModel(const BucketPlan& sizes, const StepCosts& costs, bool rides)
      : sizes_(sizes), costs_(costs), rides_(rides), parameters_(static_cast<ParameterId>(costs.ready_ms.size())) {}

  CollectiveTime bucket(double previous_end, ParameterId first, ParameterId end) const {
    const bool last = end == parameters_, trailer = last && rides_;
    const double ready = trailer ? pass_end() : end > 0 ? costs_.ready_ms[end - 1] : 0;
    const int64_t stop = trailer ? sizes_.total : last ? sizes_.padded : sizes_.parameter_offsets[end];
    const int64_t start = first < parameters_ ? sizes_.parameter_offsets[first] : 0;
    return after(previous_end, ready, stop - start);
  }
  CollectiveTime trailer(double previous_end) const { return after(previous_end, pass_end(), sizes_.trailer()); }

  double pass_end() const { return std::max(costs_.compute_ms, costs_.ready_ms.empty() ? 0 : costs_.ready_ms.back()); }

 private:
  CollectiveTime after(double previous_end, double ready, int64_t elements) const {
    const double begin = std::max(previous_end, ready);
    return {.ready = ready, .begin = begin, .end = begin + costs_.link.ms(elements)};
  }

  const BucketPlan& sizes_;
  const StepCosts& costs_;
  const bool rides_;
  const ParameterId parameters_;
};

class BucketSearch {
 public:
  using Begins = std::vector<ParameterId>;

  BucketSearch(const BucketPlan& sizes, bool rides) : sizes_(sizes), rides_(rides) {}

  // The plan that ends first for each number of buckets, from 1 to kMostFastestBuckets or the number of parameters.
  //
  // Dynamic programming. ends[j] is the least time at which k buckets of the parameters [0, j) have ended, for each k;
  // a bucket that begins after an earlier end never ends later, so that only this least time of a prefix matters.
  // begins[k][j] is where the last of these buckets begins.
  std::vector<Begins> fastest_by_count(const StepCosts& costs) const {
    require_costs(sizes_, costs);
    const auto parameters = static_cast<ParameterId>(costs.ready_ms.size());
    if (parameters == 0) return {{0}};
    const CollectiveModel model(sizes_, costs, rides_);
    constexpr double kNever = std::numeric_limits<double>::infinity();
    const int most = std::min<int>(parameters, kMostFastestBuckets);
    std::vector<double> ends(parameters + 1, kNever);
    std::vector<Begins> begins(most + 1, Begins(parameters + 1, 0)), plans;
    ends[0] = 0;
    for (int k = 1; k <= most; ++k) {
      std::vector<double> next(parameters + 1, kNever);
      for (ParameterId end = k; end <= parameters; ++end)
        for (ParameterId first = k - 1; first < end; ++first) {
          const double time = model.bucket(ends[first], first, end).end;
          if (time >= next[end]) continue;
          next[end] = time;
          begins[k][end] = first;
        }
      ends = std::move(next);
      Begins plan(k);
      for (ParameterId last = k, end = parameters; last > 0; --last) plan[last - 1] = end = begins[last][end];
      plans.push_back(std::move(plan));
    }
    return plans;
  }

  // When the last collective ends, and what the buckets cost besides.
  double time(const Begins& begins, const StepCosts& costs) const {
    const CollectiveModel model(sizes_, costs, rides_);
    double end = 0;
    for (size_t b = 0; b < begins.size(); ++b) {
      const bool last = b + 1 == begins.size();
      end = model.bucket(end, begins[b], last ? static_cast<ParameterId>(costs.ready_ms.size()) : begins[b + 1]).end;
    }
    if (!rides_) end = model.trailer(end).end;
    return end + static_cast<double>(begins.size()) * costs.bucket_ms;
  }

  // The first one with the least time.
  const Begins& best(const std::vector<Begins>& plans, const StepCosts& costs) const {
    return *std::ranges::min_element(plans, {}, [&](const Begins& begins) { return time(begins, costs); });
  }

 private:
  const BucketPlan& sizes_;
  const bool rides_;
};

StepCosts slowed(StepCosts costs, double link, double pass) {
  for (double* const ms : {&costs.link.latency_ms, &costs.link.ms_per_mib}) *ms *= link;
  costs.compute_ms *= pass;
  for (double& ms : costs.ready_ms) ms *= pass;
  return costs;
}

}  // namespace

std::vector<CollectiveTime> predict_collectives(const BucketPlan& plan, const StepCosts& costs,
                                                bool trailer_in_last_bucket) {
  require_costs(plan, costs);
  const CollectiveModel model(plan, costs, trailer_in_last_bucket);
  std::vector<CollectiveTime> times;
  double end = 0;
  for (const Bucket& bucket : plan.buckets) {
    times.push_back(model.bucket(end, bucket.first, bucket.end));
    end = times.back().end;
  }
  if (!trailer_in_last_bucket) times.push_back(model.trailer(end));
  return times;
}

double exposed_ms(const BucketPlan& plan, const StepCosts& costs, bool trailer_in_last_bucket) {
  const double end = predict_collectives(plan, costs, trailer_in_last_bucket).back().end;
  return end - CollectiveModel(plan, costs, trailer_in_last_bucket).pass_end();
}

std::vector<ParameterId> fastest_buckets(const BucketPlan& sizes, const StepCosts& costs, bool trailer_in_last_bucket) {
  const BucketSearch search(sizes, trailer_in_last_bucket);
  return search.best(search.fastest_by_count(costs), costs);
}

std::vector<ParameterId> robust_buckets(const BucketPlan& sizes, const StepCosts& costs, bool trailer_in_last_bucket) {
  const BucketSearch search(sizes, trailer_in_last_bucket);
  const std::array cases{slowed(costs, kRobustLink, 1), slowed(costs, 1, kRobustPass)};
  auto plans = search.fastest_by_count(costs);
  const double most = search.time(search.best(plans, costs), costs) * (1 + kRobustTolerance);
  if (const auto built = sizes.begins(); search.time(built, costs) <= most) return built;
  std::vector<double> least;
  for (const StepCosts& other : cases) {
    auto more = search.fastest_by_count(other);
    least.push_back(search.time(search.best(more, other), other));
    std::ranges::move(more, std::back_inserter(plans));
  }
  std::erase_if(plans, [&](const auto& begins) { return search.time(begins, costs) > most; });
  return *std::ranges::min_element(plans, {}, [&](const auto& begins) {
    double worst = 0;
    for (size_t k = 0; k < cases.size(); ++k) {
      const double time = search.time(begins, cases[k]);
      worst = std::max(worst, least[k] > 0 ? time / least[k] : time);
    }
    return worst;
  });
}

}  // namespace ddp
