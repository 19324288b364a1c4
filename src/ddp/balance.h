// Shards by measured speed (--rank-weights auto): how many samples of a micro-batch each rank computes. Pure decisions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// Samples of each rank in a full micro-batch. They are the weights of the ranks for micro-batches of other sizes.
using Shares = std::vector<int64_t>;

// No shard has more samples than this many equal ones: memory is planned for it.
inline constexpr int64_t kLargestShare = 2;

// The most samples that such shares give a rank of a micro-batch of `samples`, whatever its size.
int64_t largest_share(int64_t samples, int world);

// The shares with which the slowest rank is done first, share / speed: from 1 to kLargestShare equal shares. There are
// as many samples as ranks at least. Speeds: of each rank, in samples/s, finite and above 0.
Shares fastest_shares(int64_t samples, std::span<const double> speeds);

// Whether there is a speed for each rank, finite and above 0. A rank without samples has none.
bool are_speeds(std::span<const double> speeds, size_t ranks);

// The shares from now on, or nothing to stay with those of `now`. `equal`: those of equal weights. `speeds`: as just
// measured; `earlier`: of the measurement before, or empty. Shares change where the predicted step gets shorter
//   - by 10 % or more, to leave `equal` or other shares. Measured speeds of a steady machine vary by up to 8 %, from
//     which a change predicts as much on two ranks;
//   - by 2 % or more, to return to `equal`, which then is at most 10 % slower than the fastest shares;
//   - by 12 % or more, to return to `equal` if all ranks are equally fast: one line in the samples, with a fixed part
//     that is not negative, is within 10 % of the time of each, and the fastest shares are 5 % faster than `now`. Such
//     ranks differ in speed: more samples, more speed;
// by both measurements, or by 20 % according to the last one alone.
//
// Speeds have the fixed part of a step in them, so where it is large the shares come to the fastest ones in several
// changes. Shares may stay where returning to `equal` would make the step up to 12 % shorter.
std::optional<Shares> balanced(const Shares& now, const Shares& equal, std::span<const double> speeds,
                               std::span<const double> earlier);

// Such as "rank 0 1.33, rank 1 0.67 (rank 1 at 100 samples/s, rank 0 at 200)": shares over their mean, of up to eight
// ranks, else the least and the largest one; and the slowest and the fastest rank.
std::string describe_shares(const Shares& shares, std::span<const double> speeds);

}  // namespace ddp
