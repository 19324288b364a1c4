#include "ddp/step_speed.h"

#include "core/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddp {
namespace {

using Kind = SpeedLimit::Kind;

constexpr double kNamed = 0.1;  // the least share of a step that a cause is named for
constexpr double kBackward = 2.0 / 3;

double busy(const StepTimes& times) { return times.data + times.compute; }

// How much longer the slowest rank computes than the mean of the others, in ms; 0 for one rank.
double excess_of_slowest(const StepSpeed& speed) {
  if (speed.ranks.size() == 1) return 0;
  double others = -speed.critical().compute;
  for (const StepTimes& times : speed.ranks) others += times.compute;
  return std::max(0.0, speed.critical().compute - others / static_cast<double>(speed.ranks.size() - 1));
}

int64_t micro_batch_of(const StepSpeed& speed) { return (speed.batch + speed.micro_batches - 1) / speed.micro_batches; }

// One sample more is a tenth of the work where a rank has fewer than ten.
std::string about_a_slow_rank(const StepSpeed& speed) {
  const int64_t world = std::ssize(speed.ranks), samples = micro_batch_of(speed);
  if (samples % world != 0 && samples / world < 10)
    return fmt::format("{} samples do not divide evenly among {} ranks; another --batch-size helps", samples, world);
  return speed.balanced ? "see what else runs there"
                        : "see what else runs there, or give it fewer samples with --rank-weights auto";
}

std::string sentence(const StepSpeed& speed, const SpeedLimit& limit, std::span<const std::string> hosts) {
  const double step = speed.critical().total();
  const std::string share =
      fmt::format("{:.1f} of {:.1f} ms of a step ({:.0f} %)", limit.ms, step, 100 * limit.ms / step);
  const std::string who = fmt::format("rank {} on {}", speed.slowest(), hosts[speed.slowest()]);
  switch (limit.kind) {
    case Kind::computing: return fmt::format("computing limits this run: {}", share);
    case Kind::data:
      return fmt::format(
          "data limit this run: {} waits for them {}; for pictures, a faster disk and more --workers help; else fewer "
          "--threads",
          who, share);
    case Kind::communication:
      return fmt::format(
          "communication limits this run: {} are not hidden behind computing; a larger --batch-size, --grad-dtype bf16 "
          "or (between hosts) int8, and a faster network help",
          share);
    case Kind::slow_rank:
      return fmt::format(
          "{} limits this run: it computes {:.1f} ms longer than the others, {:.0f} % of a step of {:.1f} ms; {}", who,
          limit.ms, 100 * limit.ms / step, step, about_a_slow_rank(speed));
  }
  return "";
}

std::string about_more_ranks(const StepSpeed& speed) {
  const size_t world = speed.ranks.size();
  if (world == 1) return "what more ranks would bring is not known from one rank; see with two";
  const double step = step_on_twice_the_ranks(speed);
  return fmt::format(
      "{} ranks, each with as many cores or GPUs as now, would take about {:.1f} ms for a step of this --batch-size: "
      "{:.1f} times as fast",
      2 * world, step, speed.critical().total() / step);
}

// The size of the largest shard of a micro-batch on `ranks` ranks, divided by its present size.
double shard_on(int64_t ranks, const StepSpeed& speed) {
  const auto largest = [&](int64_t n) { return static_cast<double>((micro_batch_of(speed) + n - 1) / n); };
  return speed.batch == 0 ? 0.5 : largest(ranks) / largest(std::ssize(speed.ranks));
}

std::string about_the_batch(const StepSpeed& speed) {
  if (!speed.noise_scale)
    return fmt::format("whether a larger batch would help is not known: {}",
                       speed.ranks.size() == 1 && speed.micro_batches == 1
                           ? "one rank needs --accumulate for that"
                           : "there are too few steps, or their noise hides the gradient");
  const bool helps = *speed.noise_scale >= static_cast<double>(speed.batch);
  return fmt::format("a larger batch would {}: the gradient noise scale is about {:.0f} samples, the batch has {}",
                     helps ? "save steps, so more ranks would help" : "save few steps", *speed.noise_scale,
                     speed.batch);
}

}  // namespace

int StepSpeed::slowest() const {
  DDP_EXPECT(!ranks.empty());
  const auto found = std::ranges::max_element(ranks, {}, busy);
  return static_cast<int>(found - ranks.begin());
}

double StepSpeed::samples_per_second(int rank) const {
  return samples[rank] > 0 ? 1000 * samples[rank] / busy(ranks[rank]) : 0;
}

double StepSpeed::imbalance() const {
  double sum = 0;
  for (const StepTimes& times : ranks) sum += busy(times);
  return sum > 0 ? busy(critical()) * static_cast<double>(ranks.size()) / sum - 1 : 0;
}

double StepSpeed::exposed() const {
  double least = critical().exposed_comm;
  for (const StepTimes& times : ranks) least = std::min(least, times.exposed_comm);
  return std::min(least, communication);
}

double StepSpeed::hidden() const { return communication > 0 ? 1 - exposed() / communication : 1; }

std::vector<SpeedLimit> speed_limits(const StepSpeed& speed) {
  const StepTimes& critical = speed.critical();
  const double excess = excess_of_slowest(speed);
  std::vector<SpeedLimit> limits;
  for (const SpeedLimit limit : {SpeedLimit{Kind::data, critical.data},
                                 SpeedLimit{Kind::communication, speed.exposed()}, SpeedLimit{Kind::slow_rank, excess}})
    if (limit.ms >= kNamed * critical.total() && limit.ms > 0) limits.push_back(limit);
  if (limits.empty()) limits.push_back({Kind::computing, critical.compute});
  std::ranges::sort(limits, std::ranges::greater(), &SpeedLimit::ms);
  return limits;
}

double step_on_twice_the_ranks(const StepSpeed& speed) {
  const auto now = static_cast<double>(speed.ranks.size());
  DDP_EXPECT(now > 1);
  const StepTimes& critical = speed.critical();
  const double shard = shard_on(2 * std::ssize(speed.ranks), speed), excess = excess_of_slowest(speed);
  const double scaled = shard * (critical.compute - excess);
  const double communication = speed.communication * ((2 * now - 1) / (2 * now)) / ((now - 1) / now);
  const double exposed = std::max(communication * (1 - speed.hidden()),
                                  communication - kBackward * (scaled + excess) / speed.micro_batches);
  const double uneven = critical.exposed_comm - speed.exposed();  // the ranks wait for each other
  return shard * (critical.data + uneven) + excess + scaled + std::max(exposed, 0.0);
}

std::vector<std::string> explain(const StepSpeed& speed, std::span<const std::string> hosts) {
  DDP_EXPECT(hosts.size() == speed.ranks.size());
  if (speed.computes_with_collectives)
    return {"what limits this run is not known: with --zero or --sync-bn, computing contains communication",
            about_the_batch(speed)};
  std::vector<std::string> sentences;
  for (const SpeedLimit& limit : speed_limits(speed)) sentences.push_back(sentence(speed, limit, hosts));
  sentences.push_back(about_more_ranks(speed));
  sentences.push_back(about_the_batch(speed));
  return sentences;
}

}  // namespace ddp
