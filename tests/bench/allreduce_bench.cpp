// allreduce_bench ROUNDS BYTES... measures allreduces of floats of these sizes over the ranks of mpirun, in place.
//
// A round runs each algorithm once, in a fixed order. Before the common start of a run, each rank writes its buffer, as
// backprop does. A run of a small size is many allreduces in a row. Its time is that of the slowest rank, divided by
// the number of allreduces. First the program counts wrong sums, of whole numbers whose sums are exact in any order.
//
// Rank 0 prints a line for each size and algorithm: bytes | algorithm | median time, us | wrong sums | floats |
// algorithm bandwidth, GB/s | bus bandwidth, GB/s | median of the ratios to MPI_Allreduce's speed in the same round.
#include "app/commands/doctor/measure.h"
#include "comm/mpi/check.h"
#include "comm/mpi/session.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "device/buffer.h"
#include "device/cpu/device.h"
#include "median.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace ddp {
namespace {

struct Algorithm {
  std::string_view name;
  std::optional<Allreduce> ours;  // nullopt: one blocking call of MPI_Allreduce
};
constexpr std::array kAlgorithms{
    Algorithm{"shm", Allreduce::shm}, Algorithm{"ring", Allreduce::ring}, Algorithm{"mpi", Allreduce::mpi},
    Algorithm{"MPI_Allreduce", std::nullopt},  // the last one: the ratios refer to it
};

int allreduces_of_a_run(int64_t bytes) { return static_cast<int>(std::clamp<int64_t>((1 << 20) / bytes, 1, 200)); }

float value(int64_t i, int rank) { return static_cast<float>(i % 61 + rank % 64); }

class Contender {
 public:
  Contender(const Algorithm& algorithm, MpiSession& session, Device& device)
      : name(algorithm.name),
        rank_(session.rank()),
        size_(session.size()),
        device_(device),
        communicator_(algorithm.ours ? session.world(*algorithm.ours) : nullptr) {}

  void allocate(int64_t count) {
    const bool own = communicator_ && communicator_->memory();
    buffer_ = {};
    buffer_ = Buffer(own ? *communicator_->memory() : device_, bytes_of_floats(count));
    span_ = DeviceSpan::of({buffer_.as<float>(), static_cast<size_t>(count)});
    times.clear();
  }

  // The number of wrong sums on all ranks.
  int64_t count_wrong() {
    auto* const data = buffer_.as<float>();
    for (int64_t i = 0; i < span_.count; ++i) data[i] = value(i, rank_);
    all_reduce();
    int64_t wrong = 0;
    for (int64_t i = 0; i < span_.count; ++i) {
      float expected = 0;
      for (int rank = 0; rank < size_; ++rank) expected += value(i, rank);
      wrong += data[i] != expected;
    }
    DDP_MPI(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
    return wrong;
  }

  void run(int allreduces) {
    device_.zero(buffer_.data(), buffer_.bytes());  // repeated sums do not overflow
    DDP_MPI(MPI_Barrier(MPI_COMM_WORLD));
    const Stopwatch watch;
    for (int i = 0; i < allreduces; ++i) all_reduce();
    double seconds = watch.seconds() / allreduces;
    DDP_MPI(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    times.push_back(seconds);
  }

  std::string_view name;
  std::vector<double> times;  // in s, by round

 private:
  void all_reduce() {
    if (communicator_)
      communicator_->wait(communicator_->all_reduce(span_));
    else
      DDP_MPI(
          MPI_Allreduce(MPI_IN_PLACE, span_.data, static_cast<int>(span_.count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
  }

  int rank_, size_;
  Device& device_;
  std::unique_ptr<Communicator> communicator_;
  Buffer buffer_;
  DeviceSpan span_;
};

void measure(std::vector<Contender>& contenders, int64_t bytes, int rounds, const MpiSession& session) {
  std::vector<int64_t> wrong;
  for (Contender& contender : contenders) {
    contender.allocate(bytes / static_cast<int64_t>(sizeof(float)));
    wrong.push_back(contender.count_wrong());
  }
  for (int round = 0; round < rounds; ++round)
    for (Contender& contender : contenders) contender.run(allreduces_of_a_run(bytes));
  if (session.rank() != 0) return;
  for (size_t c = 0; c < contenders.size(); ++c) {
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round)
      ratios.push_back(contenders.back().times[round] / contenders[c].times[round]);
    const double seconds = median(contenders[c].times);
    fmt::print("{:>9} | {:>14} | {:>10.2f} | {:>5} | {:>9} | {:>7.3f} | {:>7.3f} | {:>6.2f}\n", bytes,
               contenders[c].name, 1e6 * seconds, wrong[c], bytes / sizeof(float),
               1e-9 * static_cast<double>(bytes) / seconds,
               1e-9 * doctor::bus_bandwidth(bytes, seconds, session.size()), median(ratios));
  }
}

void run(MpiSession& session, int rounds, const std::vector<int64_t>& sizes) {
  const auto device = make_cpu_device();
  std::vector<Contender> contenders;
  for (const Algorithm& algorithm : kAlgorithms) contenders.emplace_back(algorithm, session, *device);
  for (const int64_t bytes : sizes) measure(contenders, bytes, rounds, session);
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  ddp::MpiSession session(argc, argv);
  try {
    std::vector<int64_t> sizes;
    for (int i = 2; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 0;
    const bool valid =
        rounds > 0 && std::ranges::all_of(sizes, [](int64_t s) { return s > 0 && s % sizeof(float) == 0; });
    ddp::require(valid, ddp::Exit::usage, "usage: allreduce_bench ROUNDS BYTES..., multiples of 4");
    ddp::run(session, rounds, sizes);
  } catch (const ddp::Error& e) {
    fmt::print(stderr, "allreduce_bench: {}\n", e.what());
    ddp::MpiSession::abort(e.code());
  }
}
