// An error ends a run with its message and its documented exit code where the means are short: standard streams that
// are closed, full or without a reader, threads, memory, and the size of files.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/program.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

constexpr int kUsage = static_cast<int>(Exit::usage), kOutput = static_cast<int>(Exit::output),
              kNumerics = static_cast<int>(Exit::numerics), kDevice = static_cast<int>(Exit::device),
              kCommunication = static_cast<int>(Exit::communication);

// Runs a shell command on `ranks` ranks; 0: without mpirun.
Outcome run(int ranks, const std::string& command, const std::string& environment = "") {
  const std::string one = fmt::format("CUDA_VISIBLE_DEVICES= {} timeout -k 5 400 ", environment);
  return ranks == 0 ? shell(fmt::format("{} sh -c '{}'", one, command))
                    : shell(fmt::format("{} {} -np {} sh -c '{}'", one, DDP_MPIRUN, ranks, command));
}

// The options of a short run in `folder`.
std::string options(const TempFolder& folder) {
  few_images(folder / "images", 64, 10);
  return fmt::format("--data-path {} --epochs 5 --batch-size 16 --eval-every 0 --max-steps 20 --output-dir {} ",
                     (folder / "images").string(), (folder / "run").string());
}

// The command's exit code when nobody reads the stream to which `redirection` sends its output. (If the command is
// faster than the end of `true`, its output is lost in the same way, but without an error.)
int code_without_reader(const std::string& command, const std::string& redirection) {
  const Outcome outcome =
      run(0, fmt::format("{{ {{ sleep 0.1; {} {}; echo code $? >&3; }} | true; }} 3>&1", command, redirection));
  const size_t at = outcome.output.rfind("code ");
  return at == std::string::npos ? -1 : std::stoi(outcome.output.substr(at + 5));
}

TEST(ErrorPath, StandardErrorIsFullOrClosedOrWithoutAReader) {
  struct BrokenStream {
    int code;
    std::string options;
  };
  for (const auto& [code, more] :
       {BrokenStream{kUsage, "--bogus"}, BrokenStream{kNumerics, "--inject kind=nan,step=3"}}) {
    for (const char* redirection : {"2>/dev/full", "2>&-", "2>&1 >/dev/null"}) {
      const TempFolder folder;
      const std::string command = fmt::format("{} {} {}", DDP_PROGRAM, options(folder), more);
      const bool pipe = redirection == std::string("2>&1 >/dev/null");
      EXPECT_EQ(pipe ? code_without_reader(command, redirection) : run(0, command + " " + redirection).code, code)
          << more << " " << redirection;
    }
  }
}

// The watchdog's thread reports the hang.
TEST(ErrorPath, StandardErrorOfTheRanksIsFull) {
  const TempFolder folder;
  const Outcome outcome = run(2, fmt::format("exec {} {} --step-timeout 1 --inject kind=hang,rank=1,step=5 2>/dev/full",
                                             DDP_PROGRAM, options(folder)));
  EXPECT_EQ(outcome.code, kCommunication) << outcome.output;
  EXPECT_TRUE(std::filesystem::exists(folder / "run" / "flight" / "rank-0.json"));
}

TEST(ErrorPath, SecondSignalWithAFullStandardError) {
  const TempFolder folder;
  const Outcome outcome =
      run(0, fmt::format("{} {} --print-freq 1 --step-timeout 0 --inject kind=hang,step=5 2>/dev/full & job=$!; "
                         "for i in $(seq 3000); do [ -s {}/metrics.jsonl ] && break; sleep 0.1; done; "
                         "while kill -TERM $job; do sleep 0.3; done; wait $job",
                         DDP_PROGRAM, options(folder), (folder / "run").string()));
  EXPECT_EQ(outcome.code, 128 + SIGTERM) << outcome.output;
}

TEST(ErrorPath, ResultsAreWrittenOrTheCodeSaysSo) {
  const std::string inspect = fmt::format("{} inspect {}", DDP_PROGRAM, DDP_FORMAT1_RUN);
  const TempFolder folder;
  const std::string planned = options(folder);
  for (const std::string& command :
       {inspect, fmt::format("{} --help", DDP_PROGRAM), fmt::format("{} predict --help", DDP_PROGRAM),
        fmt::format("{} --doctor --json {}", DDP_PROGRAM, planned), fmt::format("{} --doctor {}", DDP_PROGRAM, planned),
        fmt::format("{} --plan {}", DDP_PROGRAM, planned)}) {
    const Outcome full = run(0, command + " >/dev/full");
    EXPECT_EQ(full.code, kOutput) << command << full.output;
    EXPECT_EQ(count(full.output, "error: cannot write"), 1) << full.output;
    const int code = code_without_reader(command, "");
    EXPECT_TRUE(code == 0 || code == 128 + SIGPIPE) << command << code;
  }
}

// The limit comes when the run has started: MPI needs larger files.
TEST(ErrorPath, FilesAreLimited) {
  const TempFolder folder;
  const Outcome outcome =
      run(0, fmt::format("{} {} --save-every 10steps --print-freq 1 --inject kind=slow & job=$!; "
                         "for i in $(seq 3000); do [ -s {}/metrics.jsonl ] && break; sleep 0.1; done; "
                         "prlimit --fsize=100000 --pid $job; wait $job",
                         DDP_PROGRAM, options(folder), (folder / "run").string()));
  EXPECT_EQ(outcome.code, kOutput) << outcome.output;
  EXPECT_EQ(count(outcome.output, "warning: no checkpoint of step 10: cannot write"), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "error: cannot write"), 1) << outcome.output;
}

const std::string kPreload = fmt::format("LD_PRELOAD={} ", DDP_FAILING_LIMITS);

TEST(ErrorPath, MemoryIsShort) {
  for (const int ranks : {0, 2}) {
    const TempFolder folder;
    const Outcome outcome =  // the training images of Fashion-MNIST are 47 MB
        run(ranks, fmt::format("exec {} --max-steps 1 --output-dir {}", DDP_PROGRAM, (folder / "run").string()),
            kPreload + "DDP_BYTES=40000000 " + (ranks > 0 ? "DDP_RANK=1" : ""));
    EXPECT_EQ(outcome.code, kDevice) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "out of memory: the limit of the control group or of the machine is"), 1)
        << outcome.output;
  }
}

TEST(ErrorPath, ThreadsAreShort) {
  Outcome outcome{.code = kDevice, .output = {}};
  int threads = 0;
  for (; threads < 12 && outcome.code != 0; ++threads) {  // one thread more each time, until there are enough
    const TempFolder folder;
    const std::string command = fmt::format("{} {} --threads 2 --save-every never", DDP_PROGRAM, options(folder));
    outcome = run(0, command, kPreload + fmt::format("DDP_THREADS={}", threads));
    if (outcome.code == 0) break;
    EXPECT_EQ(outcome.code, kDevice) << threads << outcome.output;
    EXPECT_EQ(count(outcome.output, "error: cannot start a thread"), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "terminate"), 0) << outcome.output;
  }
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_GE(threads, 4);

  for (const int of_rank_1 : {1, 2}) {  // before and after the start of MPI
    const TempFolder folder;
    outcome = run(2, fmt::format("exec {} {}", DDP_PROGRAM, options(folder)),
                  kPreload + fmt::format("DDP_RANK=1 DDP_THREADS={}", of_rank_1));
    EXPECT_EQ(outcome.code, kDevice) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error: cannot start a thread"), 1) << outcome.output;
  }
}

}  // namespace
}  // namespace ddp::testing
