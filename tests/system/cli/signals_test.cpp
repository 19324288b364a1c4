// Signals that ask one rank or mpirun to stop, in every phase of a run: all ranks save at the same step, and the
// resumed run ends with the bytes of an undisturbed run.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/job.h"

#include <array>
#include <regex>

namespace ddp::testing {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kStopped = static_cast<int>(Exit::stopped);

// The options of a run in `folder`/`name`, of two epochs.
std::string options(const TempFolder& folder, const std::string& name, const std::string& more) {
  if (!fs::exists(folder / "images")) few_images(folder / "images", 512, 10000);
  return fmt::format("--data-path {} --batch-size 16 --print-freq 1 --max-steps 64 --output-dir {} {}",
                     (folder / "images").string(), (folder / name).string(), more);
}

std::string weights(const TempFolder& folder, const std::string& name) {
  return read_file(folder / name / "model.safetensors");
}

// The step in the "stopped by" line; -1 if the output has no such line or several.
int stopped_at(const std::string& output, const std::string& signal) {
  const std::regex line("stopped by " + signal +
                        " at rank [0-9]+ at step ([0-9]+): saved [^\n]*step-0*([0-9]*); resume with --resume");
  std::smatch found;
  if (count(output, "stopped by") != 1 || !std::regex_search(output, found, line)) return -1;
  EXPECT_EQ(std::stoi(found[1]), found[2].length() ? std::stoi(found[2]) : 0) << output;
  return std::stoi(found[1]);
}

void expect_stop(Job& job, const std::string& signal) {
  EXPECT_EQ(job.end(), kStopped) << job.output();
  EXPECT_GE(stopped_at(job.output(), signal), 0) << job.output();
  EXPECT_EQ(count(job.output(), "error:"), 0) << job.output();
  EXPECT_TRUE(job.is_gone());
}

void expect_same_end(const TempFolder& folder, const std::string& name, const std::string& more) {
  const Outcome resumed = program(2, options(folder, name, more + " --resume auto"));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(weights(folder, name) == weights(folder, "whole")) << resumed.output;
}

void run_undisturbed(const TempFolder& folder, const std::string& more) {
  const Outcome whole = program(2, options(folder, "whole", more));
  ASSERT_EQ(whole.code, 0) << whole.output;
}

const std::string kSlow = "--inject rank=all,kind=slow ";

TEST(Signals, InTrainingAllRanksSaveAtTheSameStep) {
  const TempFolder folder;
  const std::string more = "--eval-every 0 ";
  run_undisturbed(folder, more);
  struct Request {
    const char* name;
    int signal, rank;  // rank -1 is mpirun
  };
  for (const Request r : {Request{"SIGINT", SIGINT, 0}, Request{"SIGUSR1", SIGUSR1, -1}}) {
    Job job(folder, 2, options(folder, r.name, more + kSlow));
    ASSERT_TRUE(job.says("step 3/32"));
    ::kill(r.rank < 0 ? job.mpirun() : job.rank(r.rank), r.signal);
    expect_stop(job, r.name);
    expect_same_end(folder, r.name, more);
  }
}

TEST(Signals, StopAnEvaluation) {
  const TempFolder folder;
  const std::string more = "--model keras-convnet --lr 0.01 --bn-stats recompute ";
  run_undisturbed(folder, more);
  Job job(folder, 2, options(folder, "cut", more));
  ASSERT_TRUE(job.says("step 32/32"));
  ::kill(job.rank(1), SIGTERM);
  expect_stop(job, "SIGTERM");
  EXPECT_EQ(stopped_at(job.output(), "SIGTERM"), 32) << job.output();
  EXPECT_EQ(count(job.output(), "test acc"), 0) << job.output();
  expect_same_end(folder, "cut", more);
}

// 'T': stopped by a signal.
char state(pid_t pid) {
  const std::string line = read_file(fmt::format("/proc/{}/stat", pid));
  return line.at(line.rfind(')') + 2);
}

bool heeds(pid_t pid, int signal) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1;
  return false;
}

TEST(Signals, StopTheStartUp) {
  const TempFolder folder;
  const std::string more = "--eval-every 0 ";
  run_undisturbed(folder, more);
  Job job(folder, 2, options(folder, "cut", more));
  const pid_t rank = job.rank(1);
  ASSERT_TRUE(within(300s, [&] { return heeds(rank, SIGTERM); }));
  ::kill(rank, SIGTERM);
  expect_stop(job, "SIGTERM");
  EXPECT_EQ(stopped_at(job.output(), "SIGTERM"), 0) << job.output();
  expect_same_end(folder, "cut", more);
}

// A rank that hangs cannot save.
TEST(Signals, SecondSignalEndsTheJobAtOnce) {
  const TempFolder folder;
  Job job(folder, 2, options(folder, "run", "--eval-every 0 --step-timeout 0 --inject kind=hang,rank=1,step=5"));
  ASSERT_TRUE(job.says("step 2/32"));
  const pid_t rank = job.rank(0);
  int code = 124;
  for (int sent = 0; code == 124 && sent < 300; ++sent) {  // the first one that comes a second after the first counts
    ::kill(rank, SIGTERM);
    code = job.end(1s);
  }
  EXPECT_EQ(code, 128 + SIGTERM) << job.output();
  EXPECT_EQ(count(job.output(), "ended by a second SIGTERM, without saving"), 1) << job.output();
  EXPECT_TRUE(job.is_gone());
}

// Without mpirun, the signal of a closed terminal reaches the program, unless nohup makes it ignore the signal.
TEST(Signals, ClosedTerminalSavesExceptUnderNohup) {
  const TempFolder folder;
  const auto close_terminal = [&](const std::string& name, const char* begin) {
    const std::string run = (folder / name).string();
    return shell(
        fmt::format("{} CUDA_VISIBLE_DEVICES= {} --train-samples 512 --max-steps 10 --batch-size 16 "
                    "--print-freq 1 --eval-every 0 --output-dir {} {} & job=$!; "
                    "for i in $(seq 3000); do [ -s {}/metrics.jsonl ] && break; sleep 0.1; done; "
                    "kill -HUP $job; wait $job",
                    begin, DDP_PROGRAM, run, kSlow, run));
  };
  const Outcome closed = close_terminal("closed", "");
  EXPECT_EQ(closed.code, kStopped) << closed.output;
  EXPECT_GE(stopped_at(closed.output, "SIGHUP"), 0) << closed.output;
  const Outcome nohup = close_terminal("nohup", "trap '' HUP;");
  EXPECT_EQ(nohup.code, 0) << nohup.output;
}

// launch/run asks mpirun to save. At a SIGHUP, mpirun would continue its ranks and kill them one or two seconds later,
// so also a rank that is stopped for three. `script` is the terminal: its end closes it.
TEST(Signals, ClosedTerminalOfTheLauncherSaves) {
  const TempFolder folder;
  const Outcome closed = shell(fmt::format(
      R"(cd {0} && export DDP_TRAIN={1} CUDA_VISIBLE_DEVICES=
         script -qfec '{2}/run -np 2 {3}' log >/dev/null </dev/null &
         ranks() {{ pgrep -ax ddp_train | grep -F {0} | cut -d ' ' -f 1; }}
         for i in $(seq 3000); do grep -qs ' 3/32' log && break; sleep 0.1; done
         rank=$(ranks | head -n 1)
         kill -STOP $rank && kill -KILL $! && for i in $(seq 60); do kill -STOP $rank; sleep 0.05; done
         kill -CONT $rank
         for i in $(seq 3000); do ranks | grep -q . || break; sleep 0.1; done
         tail -n 5 log)",
      folder.path().string(), DDP_PROGRAM, DDP_LAUNCH, options(folder, "run", "--eval-every 0 " + kSlow)));
  EXPECT_TRUE(fs::exists(folder / "run" / "checkpoints" / "latest")) << closed.output;
  EXPECT_FALSE(fs::exists(folder / "run" / "checkpoints" / "step-00000064")) << "ran to its end\n" << closed.output;
}

TEST(Signals, StoppedJobContinues) {
  const TempFolder folder;
  Job job(folder, 2, options(folder, "run", "--eval-every 0 " + kSlow));
  ASSERT_TRUE(job.says("step 3/32"));
  const std::array ranks{job.rank(0), job.rank(1)};
  for (const pid_t rank : ranks) ::kill(rank, SIGTSTP);
  for (const pid_t rank : ranks) EXPECT_TRUE(within(300s, [&] { return state(rank) == 'T'; }));
  const std::string before = job.output();
  for (const pid_t rank : ranks) ::kill(rank, SIGCONT);
  EXPECT_TRUE(within(300s, [&] { return count(job.output(), "step ") > count(before, "step ") + 4; })) << job.output();
  ::kill(ranks[0], SIGTERM);
  expect_stop(job, "SIGTERM");
  EXPECT_EQ(count(job.output(), "warning:"), count(before, "warning:")) << job.output();
}

TEST(Signals, QuitEndsTheJobAtOnce) {
  const TempFolder folder;
  Job job(folder, 2, options(folder, "run", "--eval-every 0 " + kSlow));
  ASSERT_TRUE(job.says("step 3/32"));
  ::kill(job.rank(1), SIGQUIT);
  EXPECT_EQ(job.end(), 128 + SIGQUIT) << job.output();
  EXPECT_TRUE(job.is_gone());
}

TEST(Signals, RanksEndWithMpirun) {
  const TempFolder folder;
  Job job(folder, 2, options(folder, "run", "--eval-every 0 " + kSlow));
  ASSERT_TRUE(job.says("step 3/32"));
  ::kill(job.mpirun(), SIGKILL);
  EXPECT_EQ(job.end(), 128 + SIGKILL);
  EXPECT_TRUE(job.is_gone());
}

}  // namespace
}  // namespace ddp::testing
