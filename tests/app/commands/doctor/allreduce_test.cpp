#include "app/commands/doctor/measure.h"
#include "comm/local/communicator.h"
#include "device/cpu/device.h"
#include "tests/app/commands/doctor/fakes.h"

#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace ddp::doctor {
namespace {

// A transport that changes one value of an allreduce on its rank.
class Corrupting final : public Communicator {
 public:
  Corrupting(std::unique_ptr<Communicator> inner, bool corrupts) : inner_(std::move(inner)), corrupts_(corrupts) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Sequence all_reduce(DeviceSpan span) override {
    const Sequence n = inner_->all_reduce(span);
    inner_->wait(n);
    if (corrupts_ && span.count > 12345) static_cast<float*>(span.data)[12345] += 1;
    return n;
  }
  Sequence reduce_scatter(DeviceSpan span) override { return inner_->reduce_scatter(span); }
  Sequence all_gather(DeviceSpan span) override { return inner_->all_gather(span); }
  Sequence broadcast(DeviceSpan span, int root) override { return inner_->broadcast(span, root); }
  void wait(Sequence n) override { inner_->wait(n); }
  void progress() override { inner_->progress(); }
  Sequence completed() const override { return inner_->completed(); }
  void all_reduce_host(std::span<double> values) override { inner_->all_reduce_host(values); }
  void barrier() override { inner_->barrier(); }
  std::unique_ptr<Communicator> split(int colour) override { return inner_->split(colour); }

 private:
  std::unique_ptr<Communicator> inner_;
  bool corrupts_;
};

std::vector<AllreduceTrial> trials(int size, int corrupt) {
  auto world = make_local_communicators(size);
  std::vector<AllreduceTrial> all(size);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([&, rank] {
      const auto device = make_cpu_device();
      Corrupting transport(std::move(world[rank]), rank == corrupt);
      all[rank] = try_allreduce(*device, transport);
    });
  for (std::thread& rank : ranks) rank.join();
  return all;
}

TEST(DoctorAllreduce, AcceptsExactSums) {
  for (const AllreduceTrial& trial : trials(3, -1)) {
    EXPECT_EQ(trial.wrong_rank, -1);
    EXPECT_GT(trial.latency, 0);
    expect_fine(check_allreduce(trial, "MPI", ""));
  }
}

TEST(DoctorAllreduce, WrongSumNamesTheRank) {
  for (const AllreduceTrial& trial : trials(3, 2)) {
    EXPECT_EQ(trial.wrong_rank, 2);
    EXPECT_EQ(trial.got, trial.expected + 1);
    expect_only(check_allreduce(trial, "ring", "ddp_train --allreduce auto"), Verdict::fault,
                {"rank 2 got", "corrupts"}, "ddp_train --allreduce auto", Exit::communication);
  }
}

TEST(DoctorAllreduce, ReportsBusBandwidth) {
  EXPECT_DOUBLE_EQ(bus_bandwidth(1000, 1, 2), 1000);
  EXPECT_DOUBLE_EQ(bus_bandwidth(1000, 0.5, 4), 3000);
  EXPECT_DOUBLE_EQ(bus_bandwidth(1000, 1, 1), 0);
}

}  // namespace
}  // namespace ddp::doctor
