#include "ddp/balance.h"

#include "core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace ddp {
namespace {

constexpr double kLeastGain = 0.1, kLeastGainToReturn = 0.02, kGainAtOnce = 0.2;
constexpr double kLeastGainOfFit = 0.12, kMostOffFit = 0.1, kRounding = 0.05;

int64_t samples_of(const Shares& shares) { return std::reduce(shares.begin(), shares.end()); }

double slowest_seconds(const Shares& shares, std::span<const double> speeds) {
  double seconds = 0;
  for (size_t rank = 0; rank < shares.size(); ++rank)
    seconds = std::max(seconds, static_cast<double>(shares[rank]) / speeds[rank]);
  return seconds;
}

// The part of the step that is saved.
double gain(const Shares& from, const Shares& to, std::span<const double> speeds) {
  return 1 - slowest_seconds(to, speeds) / slowest_seconds(from, speeds);
}

// The part of the step that equal shares save if all ranks are equally fast: each takes fixed + samples * per_sample
// seconds, a least-squares fit. 0 where the seconds do not have this form, and where the shares are the fastest but for
// rounding.
double gain_of_equal_ranks(const Shares& shares, std::span<const double> speeds) {
  if (!are_speeds(speeds, shares.size())) return 0;
  if (gain(shares, fastest_shares(samples_of(shares), speeds), speeds) < kRounding) return 0;
  const auto ranks = static_cast<double>(shares.size()), mean_share = static_cast<double>(samples_of(shares)) / ranks;
  double mean = 0, squares = 0, products = 0;
  const auto seconds_of = [&](size_t rank) { return static_cast<double>(shares[rank]) / speeds[rank]; };
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    const double from_mean = static_cast<double>(shares[rank]) - mean_share;
    mean += seconds_of(rank) / ranks;
    squares += from_mean * from_mean;
    products += from_mean * seconds_of(rank);
  }
  const double per_sample = squares > 0 ? products / squares : 0, fixed = mean - per_sample * mean_share;
  if (per_sample <= 0 || fixed < 0) return 0;
  const auto fitted = [&](int64_t share) { return fixed + per_sample * static_cast<double>(share); };
  for (size_t rank = 0; rank < shares.size(); ++rank)
    if (std::abs(fitted(shares[rank]) / seconds_of(rank) - 1) > kMostOffFit) return 0;
  return 1 - mean / fitted(std::ranges::max(shares));
}

bool are_equally_fast(const Shares& now, std::span<const double> speeds, std::span<const double> earlier) {
  const double found = gain_of_equal_ranks(now, speeds);
  return found >= kGainAtOnce || (found >= kLeastGainOfFit && gain_of_equal_ranks(now, earlier) >= kLeastGainOfFit);
}

}  // namespace

// A cut is rounded, so a shard may exceed its exact part by one sample.
int64_t largest_share(int64_t samples, int world) { return std::min(samples, kLargestShare * samples / world + 1); }

// Each further sample goes to the rank that is done with it first.
Shares fastest_shares(int64_t samples, std::span<const double> speeds) {
  const auto world = std::ssize(speeds);
  DDP_EXPECT(samples >= world && are_speeds(speeds, speeds.size()));
  Shares shares(speeds.size(), 1);
  using Done = std::pair<double, int64_t>;  // seconds of a rank with one sample more
  std::priority_queue<Done, std::vector<Done>, std::greater<>> next;
  const auto offer = [&](int64_t rank) {
    if (shares[rank] < kLargestShare * samples / world)
      next.emplace(static_cast<double>(shares[rank] + 1) / speeds[rank], rank);
  };
  for (int64_t rank = 0; rank < world; ++rank) offer(rank);
  for (int64_t left = samples - world; left > 0; --left) {
    const int64_t rank = next.top().second;
    next.pop();
    ++shares[rank];
    offer(rank);
  }
  return shares;
}

bool are_speeds(std::span<const double> speeds, size_t ranks) {
  return speeds.size() == ranks && std::ranges::all_of(speeds, [](double v) { return std::isfinite(v) && v > 0; });
}

std::optional<Shares> balanced(const Shares& now, const Shares& equal, std::span<const double> speeds,
                               std::span<const double> earlier) {
  DDP_EXPECT(now.size() == equal.size() && samples_of(now) == samples_of(equal));
  if (now.size() < 2 || std::ranges::min(equal) == 0 || !are_speeds(speeds, now.size())) return std::nullopt;
  if (now != equal && are_equally_fast(now, speeds, earlier)) return equal;
  Shares next = fastest_shares(samples_of(now), speeds);
  if (gain(equal, next, speeds) < kLeastGain) next = equal;
  const double least = next == equal ? kLeastGainToReturn : kLeastGain, found = gain(now, next, speeds);
  const bool was_found = are_speeds(earlier, now.size()) && gain(now, next, earlier) >= least;
  if (found < least || (found < kGainAtOnce && !was_found)) return std::nullopt;
  return next;
}

std::string describe_shares(const Shares& shares, std::span<const double> speeds) {
  constexpr size_t kListed = 8;
  const double mean = static_cast<double>(samples_of(shares)) / static_cast<double>(shares.size());
  const auto weight = [&](size_t rank) {
    return fmt::format("rank {} {:.2f}", rank, static_cast<double>(shares[rank]) / mean);
  };
  std::string text;
  if (shares.size() > kListed) {
    const auto [least, most] = std::ranges::minmax_element(shares);
    text = fmt::format("from {} to {}", weight(least - shares.begin()), weight(most - shares.begin()));
  }
  for (size_t rank = 0; rank < shares.size() && shares.size() <= kListed; ++rank)
    text += (rank > 0 ? ", " : "") + weight(rank);
  const auto [slowest, fastest] = std::ranges::minmax_element(speeds);
  return fmt::format("{} (rank {} at {:.0f} samples/s, rank {} at {:.0f})", text, slowest - speeds.begin(), *slowest,
                     fastest - speeds.begin(), *fastest);
}

}  // namespace ddp
