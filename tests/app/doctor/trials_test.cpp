// The doctor's measurements, and its report.
#include "app/doctor/check_runner.h"
#include "app/doctor/measure.h"
#include "app/doctor/report.h"
#include "app/doctor/time_limit.h"
#include "comm/local/communicator.h"
#include "device/cpu/device.h"
#include "tests/app/doctor/fakes.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

namespace ddp::doctor {
namespace {

namespace fs = std::filesystem;

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
    expect_only(check_allreduce(trial, "MPI, our ring", "ddp_train --allreduce auto"), Verdict::fault,
                {"rank 2 got", "corrupts"}, "ddp_train --allreduce auto", Exit::communication);
  }
}

TEST(DoctorAllreduce, ReportsBusBandwidth) {
  EXPECT_DOUBLE_EQ(bus_bandwidth(1000, 1, 2), 1000);
  EXPECT_DOUBLE_EQ(bus_bandwidth(1000, 0.5, 4), 3000);
  EXPECT_DOUBLE_EQ(bus_bandwidth(1000, 1, 1), 0);
}

class DoctorOutput : public ::testing::Test {
 protected:
  DoctorOutput() {
    std::string name = (fs::temp_directory_path() / "ddp-doctor-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~DoctorOutput() override { fs::remove_all(path_); }
  fs::path path_;
};

TEST_F(DoctorOutput, LeavesNoFiles) {
  const OutputTrial trial = try_output(path_ / "a" / "b");
  EXPECT_EQ(trial.error, "");
  EXPECT_GT(trial.bytes_per_second, 0);
  EXPECT_GT(trial.free, 0);
  EXPECT_TRUE(fs::is_empty(path_));
  fs::create_directory(path_ / "a");
  std::ofstream(path_ / "a" / "mine") << "x";
  EXPECT_EQ(try_output(path_ / "a").error, "");
  EXPECT_EQ(std::distance(fs::directory_iterator(path_ / "a"), {}), 1);
}

TEST_F(DoctorOutput, NamesAnUnwritableFolder) {
  std::ofstream(path_ / "file") << "x";
  const OutputTrial trial = try_output(path_ / "file" / "run");
  expect_only(check_output(trial), Verdict::fault, {(path_ / "file").string()}, "ddp_train --output-dir FOLDER",
              Exit::output);
}

TEST(DoctorOutputCheck, WarnsOfASlowOrFullDisk) {
  const int64_t plenty = int64_t{100} << 30;
  expect_fine(check_output({"runs", "", 100e6, plenty}));
  expect_only(check_output({"runs", "", 5e6, plenty}), Verdict::warning, {"runs writes 5.0 MB/s"},
              "ddp_train --save-every 10min");
  expect_only(check_output({"runs", "", 100e6, 500 << 20}), Verdict::warning, {"0.49 GiB free"},
              "ddp_train --keep-last 1");
}

TEST(DoctorHang, NamesTheStoppedOrSlowestRank) {
  std::vector<RankState> ranks{{"a", 11, 9, 0.1, 0}, {"a", 12, 9, 0.1, 0}, {"b", 0, 9, 0.4, 0.3}};
  EXPECT_EQ(diagnose_hang("clocks", 20, ranks).problem, "the check \"clocks\" has not ended within 20 s");
  ranks[2].progress = 8;
  EXPECT_EQ(diagnose_hang("clocks", 20, ranks).problem,
            "the check \"clocks\" has not ended within 20 s: it waits for rank 2 on b");
  ranks[1].silent_seconds = 19;
  expect_only({diagnose_hang("clocks", 20, ranks)}, Verdict::fault, {"rank 1 on a (pid 12) is stopped"},
              "kill -CONT 12", Exit::communication);
}

TEST(DoctorHang, NamesAStoppedRankOfAReachableHost) {
  std::vector<RankState> ranks{{"a", 11, 9, 0.1, 0}, {"b", 0, 9, 0.4, 0.3}, {"b", 0, 9, 19, 0.3}};
  expect_only({diagnose_hang("clocks", 20, ranks)}, Verdict::fault, {"rank 2 on b is stopped"},
              "ssh b pkill -CONT ddp_train", Exit::communication);
  ranks[1] = ranks[2] = {"b", 0, 9, 19.1, 19};
  expect_only({diagnose_hang("clocks", 20, ranks)}, Verdict::fault, {"no news from host b"},
              kHint + std::string("ping b"), Exit::communication);
}

TEST(DoctorHang, TimeLimitExpiresOnceOrNever) {
  std::atomic<int> expired = 0, beats = 0;
  const auto limit = [&](std::chrono::milliseconds time) {
    return TimeLimit(
        time, [&] { ++beats; }, [&] { ++expired; });
  };
  {
    const TimeLimit short_one = limit(std::chrono::milliseconds(1));
    while (expired == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(expired, 1);
  EXPECT_GT(beats, 0);
  { const TimeLimit long_one = limit(std::chrono::hours(1)); }
  {
    const TimeLimit none = limit(std::chrono::milliseconds(0));
    const int before = beats;
    while (beats < before + 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(expired, 1);
}

const Findings kFindings{all_ok("world", "2 ranks")[0], for_check("cores", warn("too few", "mpirun -np 1")),
                         for_check("output folder", fault(Exit::output, "full", "rm")),
                         for_check("GPUs", hint("nvidia-smi", fault(Exit::device, "none")))};

TEST(DoctorFinding, BelongsToItsCheck) {
  const Findings all = with_found({warn("one"), warn("two")}, "cores", "2 of 2");
  EXPECT_EQ(all[0].check + all[1].check, "corescores");
  EXPECT_EQ(all[0].found, "2 of 2");
  EXPECT_EQ(all[1].found, "");
  EXPECT_EQ(problem_of(Error(Exit::output, "a; b is full; empty it")), "a; b is full");
  EXPECT_EQ(problem_of(Error(Exit::output, "it is full")), "it is full");
}

TEST(DoctorReport, FirstFaultSetsTheExitCode) {
  EXPECT_EQ(code_of(kFindings), Exit::output);
  EXPECT_EQ(code_of({kFindings[0], kFindings[1]}), Exit::done);
  EXPECT_EQ(summary_of(kFindings), "2 faults, 1 warning\n");
}

TEST(DoctorReport, RowShowsProblemAndFix) {
  EXPECT_EQ(row_of(kFindings[0]), "world            ok       2 ranks\n");
  EXPECT_EQ(row_of(kFindings[1]),
            "cores            warning\n          wrong: too few\n            fix: mpirun -np 1\n");
  EXPECT_EQ(row_of(kFindings[3]), "GPUs             fault\n          wrong: none\n           hint: nvidia-smi\n");
}

TEST(DoctorReport, LineShowsProblemAndFix) {
  EXPECT_EQ(line_of(kFindings[1]), "too few; fix: mpirun -np 1");
  EXPECT_EQ(line_of(kFindings[3]), "none; hint: nvidia-smi");
}

TEST(DoctorReport, WritesJson) {
  const std::string text = json_of(kFindings, 2);
  for (const char* part : {"\"format\": 2", "\"ranks\": 2", "\"verdict\": \"warning\"", "\"fix\": \"mpirun -np 1\"",
                           "\"hint\": \"nvidia-smi\"", "\"faults\": 2", "\"exit_code\": 4"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in " << text;
}

}  // namespace
}  // namespace ddp::doctor
