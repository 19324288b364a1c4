// The plan that cuts the flat gradient buffer into buckets: a pure function of the parameters' sizes.
//
//   | parameter 0 | parameter 1 | ... | parameter P-1 | padding | trailer |
//   | bucket 0    | bucket 1 ...      | last bucket             |         |
//
// Parameters lie in reverse order of the forward pass, so backprop completes bucket 0 first. The trailer contains
// the other numbers that a step sums: batch-norm sums, then the ticket.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

using ParameterId = int;  // position in the flat buffer, 0 first

struct BucketCaps {
  // Largest bucket in MiB. A larger parameter has its own bucket. A run below 64 KiB and an eighth of the cap that the
  // next parameters would cut off joins them, also over the cap.
  double cap_mb = 8;
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
  int64_t padded = 0;           // `gradients` rounded up to a multiple of the world size; the trailer starts here
  int64_t total = 0;            // `padded` and the trailer
  int64_t trailer() const { return total - padded; }  // elements of the trailer
  int bucket_of(ParameterId id) const;
  std::vector<ParameterId> begins() const;  // the first parameter of each bucket
  uint64_t hash() const;                    // equal plans have equal hashes, on every machine
};

// parameter_counts: elements of each parameter in flat-buffer order. The last bucket has at most a 64th of all
// elements, or one parameter. Throws Error(Exit::usage) for a cap of 0 or below.
BucketPlan plan_buckets(std::span<const int64_t> parameter_counts, int world_size, int64_t trailer_elements,
                        const BucketCaps& caps);

// The plan whose buckets begin at these parameters; `begins` are possible_begins().
BucketPlan plan_buckets_at(std::span<const int64_t> parameter_counts, int world_size, int64_t trailer_elements,
                           std::span<const ParameterId> begins);

// Whether buckets of a plan with this number of parameters can begin there: from 0, ascending, below `parameters`.
bool possible_begins(std::span<const ParameterId> begins, int64_t parameters);

// The part of a bucket that a rank updates when optimizer state is sharded (ZeRO stage 1): each of `world` ranks has an
// equal partition of every bucket, in rank order. The partition and its state begin at multiples of 64 bytes.
struct Partition {
  int64_t begin = 0, count = 0;  // elements of the flat buffer
  int64_t state = 0;             // offset in the rank's optimizer state, which holds its partitions without gaps
  friend bool operator==(const Partition&, const Partition&) = default;
};

// With sharded state, the count of every parameter, its padding included, must be a multiple of this.
constexpr int64_t partition_alignment(int world) { return 16 * int64_t{world}; }

// The rank's partition of each bucket. The plan's parameter counts must be multiples of partition_alignment(world).
std::vector<Partition> partitions_of(const BucketPlan& plan, int rank, int world);

}  // namespace ddp
