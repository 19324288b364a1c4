// What a training would reach on a cluster, from the profile of a run on another one. Pure functions.
//
// A step on N ranks takes
//   compute * m + exposed communication + wait for data.
// compute: the passes of the micro-batches take as long per sample as in the profile; the rest of the profile's step,
// such as the optimizer, does not depend on the number of samples. m: the expected maximum of N draws from the
// profile's spread of computing times, because a collective waits for its last rank. A bucket begins when its last
// gradient is ready on the slowest rank, and the collective before it is done. Exposed: what goes on after the last
// pass. Data: each rank's threads read as fast as in the profile, and the ranks of a host share the rate of the host.
// The wait for data that the profile's run had is shorter by what a step takes longer than the slowest rank computed
// there: exposed communication of that run is not known, and counts as if it were new.
#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/cluster.h"
#include "ddp/run_profile.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace ddp {

// Buckets of more parameters than this are cut by the default caps: the time of robust_buckets() grows with their
// square.
inline constexpr size_t kMostPlannedParameters = 1000;

struct Workload {
  int64_t batch = 0;                    // samples of a step over all ranks; 0: batch_per_rank on each rank
  int64_t batch_per_rank = 0;           // samples of a rank's step
  std::optional<BucketCaps> caps = {};  // none: robust_buckets(), as a run without caps
  double host_samples_per_second = 0;   // what a host can read; 0: as fast as its ranks' threads

  int64_t batch_on(int64_t ranks) const { return batch > 0 ? batch : batch_per_rank * ranks; }
  int64_t largest_shard_on(int64_t ranks) const { return batch > 0 ? (batch + ranks - 1) / ranks : batch_per_rank; }
};

// A step of the median rank.
struct StepPlan {
  struct Bucket {
    double ready_ms = 0;  // from the begin of the computing
    double bytes = 0;
    CollectiveTimes times = {};
    int64_t ring_steps = 0;  // of an all-reduce or a reduce-scatter between the hosts
  };
  std::vector<Bucket> buckets = {};
  double passes_ms = 0;  // forward and backward passes of all micro-batches; at least each ready_ms
  double update_ms = 0;  // the rest of the computing
  double gather_ms = 0;  // of the weights, with sharded optimizer state; nothing hides it
  double read_ms = 0;    // to read a rank's samples, while it computes
  double data_ms = 0;    // the measured wait for data
  // The time of the computing that data_ms comes on top of; a longer step shortens the wait. None: it does not, because
  // samples are in memory.
  std::optional<double> hiding_ms = {};
};
StepPlan plan_step(const RunProfile& profile, const Cluster& cluster, const Workload& workload);

struct Scaling {
  int64_t ranks = 1, hosts = 1, batch = 1;
  double compute_ms = 0;    // of the median rank
  double straggler_ms = 0;  // what the slowest rank computes longer
  double exposed_ms = 0, data_ms = 0;
  double step_ms = 0;
  double communication_ms = 0;  // of all collectives, one after another
  int trees = 0, rings = 0;     // buckets by algorithm between the hosts
  RankMemory memory = {};

  double samples_per_second() const { return 1000 * static_cast<double>(batch) / step_ms; }
};

Scaling scaling_on(const RunProfile& profile, const Cluster& cluster, const Workload& workload);

// Samples a second of `many`, over those of `one` rank times the ranks.
double efficiency(const Scaling& many, const Scaling& one);

// How many times as fast as `one` a run comes to the same loss: steps that it needs are in proportion to 1 +
// noise_scale / batch (McCandlish, Kaplan and Amodei 2018).
double speed_up(const Scaling& many, const Scaling& one, double noise_scale);

// The link that costs of measured collectives mean: between the hosts of the profile if it has several, else between
// the ranks of its host. None: one rank has no link. CPU ranks of several hosts have a ring in pieces, whose times are
// not on a line as the costs are: the link gives the measured times of no bytes and of all gradients, and is less than
// a latency off in between. With several ranks on each of several hosts, the network has the time inside the hosts too;
// there a ring in pieces overlaps it, but GPUs do not.
std::optional<Link> measured_network(const RunProfile& profile);
std::optional<Link> measured_inside(const RunProfile& profile);

}  // namespace ddp
