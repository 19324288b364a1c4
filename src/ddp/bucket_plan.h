// How the flat gradient buffer is cut into buckets: a pure function of the parameters' sizes.
//
//   | parameter 0 | parameter 1 | ... | parameter P-1 | padding | tail |
//   | bucket 0    | bucket 1 ...      | last bucket             |      |
//
// Parameters lie in reverse order of the forward pass, so bucket 0 is the first that backprop completes. The tail is
// what else a step sums: batch-norm sums, then the ticket.
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
  int64_t offset = 0, count = 0;   // elements of the flat buffer, padding included
  ParameterId first = 0, end = 0;  // the parameters [first, end)
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

struct BucketPlan {
  std::vector<int64_t> parameter_offsets;  // elements
  std::vector<int64_t> parameter_counts;
  std::vector<Bucket> buckets;  // in launch order
  int64_t gradients = 0;        // elements of all parameters, without padding
  int64_t padded = 0;           // the same rounded up to a multiple of the world size; the tail starts here
  int64_t total = 0;            // with the tail
  int64_t tail() const { return total - padded; }
  int bucket_of(ParameterId id) const;
  uint64_t hash() const;  // equal plans have equal hashes, on every machine
};

BucketPlan plan_buckets(std::span<const int64_t> parameter_counts, int world_size, int64_t tail_elements,
                        const BucketCaps& caps);

// Where buckets are scattered, each of `world` ranks keeps an equal part of every bucket, in rank order. The part, and
// with it the state of its optimizer, begins at a multiple of 64 bytes.
struct Part {
  int64_t begin = 0, count = 0;  // elements of the flat buffer
  int64_t state = 0;             // where it begins in the rank's state, in which its parts follow one another
  friend bool operator==(const Part&, const Part&) = default;
};

// What every parameter's count, the gap behind it included, must then be a multiple of.
constexpr int64_t scatter_alignment(int world) { return 16 * int64_t{world}; }

// By bucket. The plan is of parameters so aligned.
std::vector<Part> parts_of(const BucketPlan& plan, int rank, int world);

}  // namespace ddp
