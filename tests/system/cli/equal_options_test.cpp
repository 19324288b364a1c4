// Options that change how a run computes, and not what: the weights are equal to rounding, and a sign shows that the
// option was heeded. And options of batch norms and dropout, whose results depend on ranks and seeds.
#include "tests/system/cli/job.h"
#include "tests/system/cli/option_runs.h"

#include <iterator>
#include <set>

namespace ddp::testing {
namespace {

// Two runs of one step, whose changes of the weights differ by less than `tolerance` of their norm.
struct Equal {
  std::string common;  // options of both
  int reference_ranks;
  std::string option;
  int ranks;
  double tolerance = 1e-5;
};

const std::string kKeras = "--model keras-convnet ", kAdam = "--optimizer adam --adam-epsilon 0.01 ";

// Other bits are the sign that the option was heeded; for --zero, it is the memory of the next test.
const std::vector<Equal> kEqual{{"", 0, "", 3},
                                {"", 0, "--accumulate 2", 0},
                                {"", 3, "--rank-weights 4,2,1", 3},
                                {"", 3, "--allreduce ring", 3},
                                {kAdam, 3, "--zero 1", 3},
                                {"--auto-augment ra --ra-magnitude 20 ", 0, "", 3},
                                {kKeras + "--sync-bn ", 0, "", 3, 1e-4}};

class EqualOptions : public OptionRuns {
 protected:
  // Over the norm of a's change.
  double distance(Run& a, Run& b, const std::string& model) {
    return norm(b.weights() - a.weights()) / norm(a.weights() - run(kOneStep + model + "--lr 0").weights());
  }
};

TEST_F(EqualOptions, ChangeTheWeightsByRoundingOnly) {
  for (const Equal& equal : kEqual) {
    SCOPED_TRACE(equal.common + equal.option);
    Run& reference = run(kOneStep + equal.common, equal.reference_ranks);
    Run& other = run(kOneStep + equal.common + equal.option, equal.ranks);
    const std::string model = equal.common.starts_with("--model") ? equal.common : "";
    EXPECT_LE(distance(reference, other, model), equal.tolerance);
    EXPECT_TRUE(other.bytes() != reference.bytes() || equal.option == "--zero 1");
  }
}

// The ranks of a host add the terms of a gradient in their order, whatever bucket it travels in.
TEST_F(EqualOptions, BucketsChangeNoBits) {
  const std::string lenet = "--model lenet --lr 0.1 --max-steps 2 ", banner = "allreduce by shared memory, ";
  std::set<std::string> plans, weights;
  for (const char* buckets : {"", "--allreduce shm --first-bucket-mb 0.0001", "--bucket-cap-mb 0.05"}) {
    const Run& ended = run(lenet + buckets, 3);
    const size_t begin = ended.output.find(banner);
    ASSERT_NE(begin, std::string::npos) << ended.output;
    plans.insert(ended.output.substr(begin, ended.output.find('\n', begin) - begin));
    weights.insert(ended.bytes());
  }
  EXPECT_EQ(plans.size(), 3);
  EXPECT_EQ(weights.size(), 1);
  const Run& by_mpi = run(lenet + "--allreduce mpi", 3);
  EXPECT_EQ(count(by_mpi.output, "allreduce by MPI, "), 1) << by_mpi.output;
}

// Without --sync-bn a batch norm sees its rank's part of a batch.
TEST_F(EqualOptions, BatchNormsDependOnTheRanksWithoutSyncBn) {
  EXPECT_GE(distance(run(kOneStep + kKeras), run(kOneStep + kKeras, 3), kKeras), 0.01);
}

// Only the convolutions of a network such as resnet18 suit Winograd's algorithm. The loss of the second step depends on
// the gradients of the first.
TEST_F(EqualOptions, ConvDirectChangesLossesByRoundingOnly) {
  const std::string options = "--model resnet18 --batch-size 2 --max-steps 2 --lr 0.01 --engine-seconds 0 ";
  const Run &direct = run(options + "--conv direct"), &automatic = run(options);
  const auto losses = direct.steps<double>("loss"), others = automatic.steps<double>("loss");
  for (const size_t step : {0, 1}) EXPECT_NEAR(losses.at(step), others.at(step), 1e-3 * others.at(step));
  EXPECT_EQ(direct.bytes() != automatic.bytes(), has_avx512());
}

TEST_F(EqualOptions, ZeroSharesTheStateOfTheOptimizer) {
  const auto state = [&](const std::string& options) {
    const Outcome plan = start("--optimizer adam --plan " + options, 2);
    EXPECT_EQ(count(plan.output, "reduce-scatter") > 0, !options.empty()) << plan.output;
    return number_after(plan.output, "optimizer ");
  };
  EXPECT_NEAR(state("--zero 1"), state("") / 2, 1);
}

int threads_of(pid_t pid) {
  return static_cast<int>(std::distance(fs::directory_iterator(fmt::format("/proc/{}/task", pid)), {}));
}

TEST_F(EqualOptions, ThreadsComputeInARank) {
  const auto threads = [&](int asked) {
    Job job(
        folder_, 1,
        fmt::format("--config {} --threads {} --print-freq 1 --epochs 100 --inject rank=all,kind=slow --output-dir {}",
                    (folder_ / "common.toml").string(), asked, (folder_ / fmt::format("threads{}", asked)).string()));
    EXPECT_TRUE(job.says("step 2/4")) << job.output();
    return threads_of(job.rank(0));
  };
  EXPECT_EQ(threads(4) - threads(1), 3);
}

// One batch of all samples, from the same weights: the seed has left only the masks of dropout.
TEST_F(EqualOptions, SeedChoosesWeightsOrderAndDropout) {
  const std::string model = kKeras + kOneStep;
  const std::string all = fmt::format("{}--batch-size {} --init-from {} ", model, kImages,
                                      (run(model + "--lr 0").folder / "model.safetensors").string());
  const auto loss = [&](const std::string& options) { return run(options).steps<double>("loss").at(0); };
  EXPECT_GE(std::abs(loss(all + "--seed 1") - loss(all + "--seed 2")), 1e-3);
  EXPECT_GE(norm(run(model + "--lr 0 --seed 1").weights() - run(model + "--lr 0").weights()), 1);
  const auto order = [&](int seed) { return start(fmt::format("--print-order 1 --seed {}", seed)).output; };
  EXPECT_NE(order(1), order(2));
}

}  // namespace
}  // namespace ddp::testing
