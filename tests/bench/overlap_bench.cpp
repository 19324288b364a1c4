// overlap_bench auto|mpi GBIT measures the share of a step's communication that overlaps compute; tests/bench/overlap
// starts it on two hosts.
//
// A step computes gradients for T_compute; the bench sleeps in slices instead, so ranks may share a core. The allreduce
// of its buckets alone takes T_comm, both together take T_both. The hidden share is 1 - (T_both - T_compute) / T_comm,
// while the computing thread polls, and by the progress engine's own thread. All three times are medians of the slowest
// rank, measured in turns. A link of GBIT Gbit/s needs the printed time; T_comm is much longer where the two ranks do
// not get two processors.
#include "comm/mpi/session.h"
#include "core/error.h"
#include "ddp/reducer.h"
#include "tests/bench/median.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

namespace ddp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kParameters = 32, kParameterElements = 64 << 10;  // 8 MiB
constexpr int kSlicesPerParameter = 8;
constexpr int kRounds = 15;

class Probe {
 public:
  explicit Probe(Communicator& communicator)
      : communicator_(communicator),
        sizes_(kParameters, kParameterElements),
        plan_(plan_buckets(sizes_, communicator.size(), 9, {.cap_mb = 1})),
        flat_(plan_.total),
        reducer_(plan_, communicator, flat_) {}

  double communicate() {
    return timed([&] {
      reducer_.begin();
      for (ParameterId id = 0; id < std::ssize(sizes_); ++id) reducer_.ready(id);
      reducer_.finish();
    });
  }
  double compute(double ms) {
    return timed([&] { work(ms, false, [](ParameterId) {}); });
  }
  double both(double ms, bool polls) {
    return timed([&] {
      reducer_.begin();
      work(ms, polls, [&](ParameterId id) { reducer_.ready(id); });
      reducer_.finish();
    });
  }
  int buckets() const { return static_cast<int>(plan_.buckets.size()); }

 private:
  // The slowest rank's time in ms after a common start.
  template <class Step>
  double timed(Step step) {
    communicator_.barrier();
    const auto start = Clock::now();
    step();
    std::vector<double> times(communicator_.size());
    times[communicator_.rank()] = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    communicator_.all_reduce_host(times);
    return *std::max_element(times.begin(), times.end());
  }

  // Sleeps until fixed times of the step, so polling time does not add to compute time.
  template <class GradientReady>
  void work(double ms, bool polls, GradientReady gradient_ready) {
    const auto start = Clock::now();
    for (int64_t slice = 1; slice <= kParameters * kSlicesPerParameter; ++slice) {
      const double until = ms * static_cast<double>(slice) / static_cast<double>(kParameters * kSlicesPerParameter);
      std::this_thread::sleep_until(
          start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(until)));
      if (polls) communicator_.progress();
      if (slice % kSlicesPerParameter == 0) gradient_ready(static_cast<ParameterId>(slice / kSlicesPerParameter - 1));
    }
  }

  Communicator& communicator_;
  std::vector<int64_t> sizes_;
  BucketPlan plan_;
  std::vector<float> flat_;
  Reducer reducer_;
};

void run(MpiSession& session, std::string_view kind, double gbits) {
  require(session.size() > 1, Exit::usage, "overlap needs at least 2 ranks");
  require(kind == "auto" || kind == "mpi", Exit::usage, "unknown allreduce {}", kind);
  const auto communicator = session.world(kind == "mpi" ? Allreduce::mpi : Allreduce::automatic);
  Probe probe(*communicator);
  std::vector<double> warm_up;
  for (int i = 0; i < 5; ++i) warm_up.push_back(probe.communicate());
  const double work_ms = 1.5 * median(warm_up);

  std::vector<double> compute, communicate, polled, unpolled;
  for (int i = 0; i < kRounds; ++i) {
    compute.push_back(probe.compute(work_ms));
    communicate.push_back(probe.communicate());
    polled.push_back(probe.both(work_ms, true));
    unpolled.push_back(probe.both(work_ms, false));
  }
  const double alone = median(compute), communication = median(communicate);
  const auto hidden = [&](const std::vector<double>& times) { return 1 - (median(times) - alone) / communication; };
  const double bytes = 2.0 * sizeof(float) * kParameters * kParameterElements * (session.size() - 1) / session.size();
  const double link_ms = bytes * 8 / (gbits * 1e6);
  if (session.rank() == 0)
    fmt::print(
        "{}: {} buckets, the link needs {:.1f} ms, compute {:.1f} ms, communication {:.1f} ms, both {:.1f} ms: {:.1f} "
        "% hidden ({:.1f} % by the engine's own thread)\n",
        kind, probe.buckets(), link_ms, alone, communication, median(polled), 100 * hidden(polled),
        100 * hidden(unpolled));
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  ddp::MpiSession session(argc, argv);
  if (argc != 3) return static_cast<int>(ddp::Exit::usage);
  try {
    ddp::run(session, argv[1], std::atof(argv[2]));
  } catch (const ddp::Error& e) {
    fmt::print(stderr, "overlap_bench: {}\n", e.what());
    ddp::MpiSession::abort(e.code());
  }
}
