// The plan that cuts the flat gradient buffer into buckets: a pure function of the parameters' sizes.
//
//   | parameter 0 | parameter 1 | ... | parameter P-1 | padding | trailer |
//   | bucket 0    | bucket 1 ...      | last bucket             |         |
//
// Parameters lie in reverse order of the forward pass, so backprop completes bucket 0 first. The tail contains the
// other numbers that a step sums: batch-norm sums, then the ticket.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

using ParameterId = int;  // position in the flat buffer, 0 first

struct BucketCaps {
  double cap_mb = 8;        // largest bucket in MiB; a larger parameter is a bucket of its own
  double first_cap_mb = 1;  // largest bucket 0 in MiB; bucket 0 is also at most a quarter of all bytes
};

struct Bucket {
  int64_t offset = 0, count = 0;   // elements of the flat buffer, padding included
  ParameterId first = 0, end = 0;  // the parameters [first, end)
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

struct BucketPlan {
  std::vector<int64_t> parameter_offsets;  // elements
  std::vector<int64_t> parameter_counts;
  std::vector<Bucket> buckets;  // in launch order
  int64_t gradients = 0;        // elements of all parameters, without padding
  int64_t padded = 0;           // the same rounded up to a multiple of the world size; the trailer starts here
  int64_t total = 0;            // with the trailer
  int64_t trailer() const { return total - padded; }
  int bucket_of(ParameterId id) const;
  uint64_t hash() const;  // equal plans have equal hashes, on every machine
};

BucketPlan plan_buckets(std::span<const int64_t> parameter_counts, int world_size, int64_t trailer_elements,
                        const BucketCaps& caps);

// A rank's share of a bucket where the optimizer's state is sharded (ZeRO stage 1): each of `world` ranks has an equal
// share of every bucket, in rank order. The share, and its state, begin at a multiple of 64 bytes.
struct Partition {
  int64_t begin = 0, count = 0;  // elements of the flat buffer
  int64_t state = 0;             // its first element in the rank's state, where partitions follow one another
  friend bool operator==(const Partition&, const Partition&) = default;
};

// Sharding needs the count of every parameter, with the gap behind it, to be a multiple of this.
constexpr int64_t partition_alignment(int world) { return 16 * int64_t{world}; }

// One for each bucket of a plan whose parameters are aligned so.
std::vector<Partition> partitions_of(const BucketPlan& plan, int rank, int world);

}  // namespace ddp
