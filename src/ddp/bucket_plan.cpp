#include "ddp/bucket_plan.h"

#include "core/error.h"
#include "ddp/hash.h"

#include <algorithm>
#include <numeric>

namespace ddp {
namespace {

constexpr double kElementsPerMb = (1 << 20) / 4.0;  // the buffer is f32
constexpr double kLeastElements = (64 << 10) / 4.0;

// Returns the end of the longest run of parameters from `begin` that fits `limit` elements. The run has at least one
// parameter and ends at `stop` at the latest.
ParameterId grow(std::span<const int64_t> counts, ParameterId begin, ParameterId stop, double limit) {
  ParameterId end = begin;
  auto sum = static_cast<double>(counts[end++]);
  while (end < stop && sum + static_cast<double>(counts[end]) <= limit) sum += static_cast<double>(counts[end++]);
  return end;
}

// Returns the beginning of the last bucket: the longest run to the last parameter that fits `limit` elements and does
// not begin before `earliest`. The run is then shortened, if possible, until its first tensor is not smaller than the
// tensor before it. So a bias stays in the bucket of its weights: both are ready at the same time.
ParameterId last_begin(std::span<const int64_t> counts, ParameterId earliest, double limit) {
  const auto end = static_cast<ParameterId>(counts.size());
  ParameterId longest = end - 1;
  auto sum = static_cast<double>(counts[longest]);
  while (longest > earliest && sum + static_cast<double>(counts[longest - 1]) <= limit)
    sum += static_cast<double>(counts[--longest]);
  for (ParameterId begin = longest; begin < end; ++begin)
    if (counts[begin] >= counts[begin - 1]) return begin;
  return longest;
}

}  // namespace

// The first bucket is small, so that communication starts early. The last bucket is small, because nothing hides it:
// its gradients are complete when backprop ends. The buckets between them hold as many parameters as fit the cap. A run
// below 64 KiB (or an eighth of the cap) before a large parameter shares its bucket: a separate collective would cost
// more than it hides.
BucketPlan plan_buckets(std::span<const int64_t> counts, int world_size, int64_t trailer_elements,
                        const BucketCaps& caps) {
  require(caps.cap_mb > 0 && caps.first_cap_mb > 0, Exit::usage, "bucket sizes must be above 0 MiB");
  const auto parameters = static_cast<ParameterId>(counts.size());
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  const double cap = caps.cap_mb * kElementsPerMb;
  std::vector<ParameterId> begins{0};
  if (parameters > 1) {
    const double first_cap = std::min({caps.first_cap_mb * kElementsPerMb, cap, all / 4});
    const ParameterId first_end = grow(counts, 0, std::max(1, parameters - 2), first_cap);
    const ParameterId last = last_begin(counts, std::min(first_end + 1, parameters - 1), std::min(cap, all / 64));
    for (ParameterId begin = first_end; begin < last;) {
      begins.push_back(begin);
      ParameterId end = grow(counts, begin, last, cap);
      const auto run = counts.subspan(begin, end - begin);
      const auto size = static_cast<double>(std::accumulate(run.begin(), run.end(), int64_t{0}));
      if (size < std::min(kLeastElements, cap / 8) && end < last) end = grow(counts, end, last, cap);
      begin = end;
    }
    begins.push_back(last);
  }
  return plan_buckets_at(counts, world_size, trailer_elements, begins);
}

BucketPlan plan_buckets_at(std::span<const int64_t> counts, int world_size, int64_t trailer_elements,
                           std::span<const ParameterId> begins) {
  DDP_EXPECT(world_size > 0 && trailer_elements >= 0);
  DDP_EXPECT(possible_begins(begins, std::max<int64_t>(std::ssize(counts), 1)));
  BucketPlan plan;
  plan.parameter_counts.assign(counts.begin(), counts.end());
  plan.parameter_offsets.resize(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), plan.parameter_offsets.begin(), int64_t{0});
  plan.gradients = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  plan.padded = (plan.gradients + world_size - 1) / world_size * world_size;
  plan.total = plan.padded + trailer_elements;
  const auto parameters = static_cast<ParameterId>(counts.size());
  for (size_t b = 0; b < begins.size(); ++b) {
    const bool is_last = b + 1 == begins.size();
    const ParameterId first = begins[b], end = is_last ? parameters : begins[b + 1];
    const int64_t from = first < parameters ? plan.parameter_offsets[first] : 0;
    const int64_t to = is_last ? plan.padded : plan.parameter_offsets[end];
    plan.buckets.push_back({.offset = from, .count = to - from, .first = first, .end = end});
  }
  return plan;
}

bool possible_begins(std::span<const ParameterId> begins, int64_t parameters) {
  return !begins.empty() && begins.front() == 0 && begins.back() < parameters &&
         std::ranges::adjacent_find(begins, std::ranges::greater_equal()) == begins.end();
}

int BucketPlan::bucket_of(ParameterId id) const {
  DDP_EXPECT(id >= 0 && id < static_cast<ParameterId>(parameter_counts.size()));
  const auto after = std::upper_bound(buckets.begin(), buckets.end(), id,
                                      [](ParameterId wanted, const Bucket& bucket) { return wanted < bucket.first; });
  return static_cast<int>(after - buckets.begin()) - 1;
}

std::vector<ParameterId> BucketPlan::begins() const {
  std::vector<ParameterId> firsts;
  for (const Bucket& bucket : buckets) firsts.push_back(bucket.first);
  return firsts;
}

uint64_t BucketPlan::hash() const {
  Hash hash;
  for (const int64_t count : parameter_counts) hash.add(static_cast<uint64_t>(count));
  for (const Bucket& bucket : buckets) {
    hash.add(static_cast<uint64_t>(bucket.offset));
    hash.add(static_cast<uint64_t>(bucket.count));
  }
  for (const int64_t size : {gradients, padded, total}) hash.add(static_cast<uint64_t>(size));
  return hash.value();
}

std::vector<Partition> partitions_of(const BucketPlan& plan, int rank, int world) {
  DDP_EXPECT(world > 0 && rank >= 0 && rank < world);
  std::vector<Partition> partitions;
  for (const Bucket& bucket : plan.buckets) {
    DDP_EXPECT(bucket.offset % partition_alignment(world) == 0 && bucket.count % partition_alignment(world) == 0);
    const int64_t count = bucket.count / world;
    partitions.push_back({.begin = bucket.offset + rank * count, .count = count, .state = bucket.offset / world});
  }
  return partitions;
}

}  // namespace ddp
