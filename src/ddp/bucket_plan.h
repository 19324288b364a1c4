// How the flat gradient buffer is cut into buckets: a pure function of the parameters' sizes.
//
//   | parameter 0 | parameter 1 | ... | parameter P-1 | padding | ticket |
//   | bucket 0    | bucket 1 ...      | last bucket                      |
//
// Parameters lie in reverse order of the forward pass, so bucket 0 is the first that backprop completes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

using ParameterId = int;  // position in the flat buffer, 0 first

struct BucketCaps {
  double cap_mb = 8;        // MiB of any bucket; a larger parameter is a bucket of its own
  double first_cap_mb = 1;  // MiB of bucket 0, which is also at most a quarter of all bytes
};

struct Bucket {
  int64_t offset = 0, count = 0;   // elements of the flat buffer, padding and ticket included
  ParameterId first = 0, end = 0;  // the parameters [first, end)
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

struct BucketPlan {
  std::vector<int64_t> parameter_offsets;  // elements
  std::vector<int64_t> parameter_counts;
  std::vector<Bucket> buckets;  // in launch order
  int64_t gradients = 0;        // elements of all parameters, without padding
  int64_t padded = 0;           // the same rounded up to a multiple of the world size; the ticket starts here
  int64_t total = 0;            // with the ticket
  int bucket_of(ParameterId id) const;
  uint64_t hash() const;  // equal plans have equal hashes, on every machine
};

BucketPlan plan_buckets(std::span<const int64_t> parameter_counts, int world_size, int64_t ticket_elements,
                        const BucketCaps& caps);

}  // namespace ddp
