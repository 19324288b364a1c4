// Planted faults in training on emulated GPUs: a bucket that is not summed, and missing events, which the fixed seeds
// catch. A failure prints a command that fails again.
#include "tests/emulator/seeds.h"
#include "tests/train/faults.h"
#include "tests/train/small.h"
#include "tests/train/trained.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <regex>
#include <string>

namespace ddp::testing {
namespace {

constexpr int64_t kFaultySteps = 5;
constexpr GpuWorld kFaultyWorld{"nccl_2_no_graph", 2, true, false, true};

FixtureConfig faulty_config() { return {.batch_size = kBatch, .lr = 0.1, .replica = {.sync_bn = true}}; }

// The largest distance of a loss; infinite if a rank fails. The ranks see different sums, so one rank may stop while
// the other continues; the first error ends both.
template <class Faulty>
double distance_with(const Network& network, const std::vector<double>& expected) {
  const MemoryDataset data = small_data(kSamples);
  double distance = 0;
  on_gpus(kFaultyWorld, [&](Communicator& c, Device& device, Ops& ops) {
    Faulty faulty(c);
    try {
      Fixture fixture(faulty_config(), network, data, device, ops, faulty);
      const auto losses = fixture.losses(0, kFaultySteps);
      if (c.rank() == 0 && distance == 0) distance = loss_distance(losses, expected);
    } catch (const Error&) {
      distance = INFINITY;
    }
  });
  return distance;
}

template <class Faulty>
void expect_caught(const Network& network) {
  const auto expected = trained_on_cpus(1, faulty_config(), network, small_data(kSamples), kFaultySteps).losses;
  for (const uint64_t seed : emulator::kFixedSeeds) {
    emulator::set_seed(seed);
    EXPECT_GT(distance_with<Faulty>(network, expected), 1e-5) << "seed " << seed;
    emulator::set_seed(seed);
    EXPECT_LE(distance_with<ForwardingCommunicator>(network, expected), 1e-5) << "seed " << seed;
  }
}

TEST(EmulatedFaults, MissingWaitForTheBucketsIsCaught) { expect_caught<NoWaitCommunicator>(small_network()); }
TEST(EmulatedFaults, MissingWaitOnTheBatchNormCommunicatorIsCaught) { expect_caught<NoWaitInParts>(two_norms()); }

TEST(EmulatedFaults, UnreducedBucketIsCaught) {
  const MemoryDataset data = small_data(kSamples);
  const Trained expected = trained_on_cpus(1, faulty_config(), small_network(), data, kFaultySteps);
  for (const GpuWorld& world : {GpuWorld{"nccl_2", 2, true, true, true}, GpuWorld{"staged_3", 3, false, true, false}}) {
    double worst = 0;
    on_gpus(world, [&](Communicator& c, Device& device, Ops& ops) {
      int sums = 0;
      FaultyCommunicator faulty(c, [&](DeviceSpan) { return sums++ % 3 != 1; });
      Fixture fixture(faulty_config(), small_network(), data, device, ops, faulty);
      const auto losses = fixture.losses(0, kFaultySteps);
      if (c.rank() == 0) worst = loss_distance(losses, expected.losses);
    });
    EXPECT_GT(worst, 1e-5) << world.name;
  }
}

// Runs only as a program of the next test.
TEST(EmulatedFaults, DISABLED_MissingWait) {
  const auto expected = trained_on_cpus(1, faulty_config(), small_network(), small_data(kSamples), kFaultySteps).losses;
  emulator::for_each_seed([&] { EXPECT_LE(distance_with<NoWaitCommunicator>(small_network(), expected), 1e-5); });
}

struct Failed {
  std::string text, seed, name;  // of the test in the printed command
};

// The first failure that the program prints.
Failed run_with_missing_wait(const std::string& environment) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      environment + " " + self + " --gtest_also_run_disabled_tests --gtest_filter=EmulatedFaults.DISABLED_MissingWait";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  std::string output;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  EXPECT_NE(::pclose(pipe), 0) << "the program did not fail";
  std::smatch found;
  const std::regex failure("Failure\n([^]*?)fails again: DDP_EMULATOR_SEED=([0-9]+) launch/test asan -R '(.*)'");
  if (!std::regex_search(output, found, failure)) {
    ADD_FAILURE() << output;
    return {};
  }
  return {found[1], found[2], found[3]};
}

TEST(EmulatedFaults, FailureNamesTheCommandThatFailsAgain) {
  const Failed first = run_with_missing_wait("env -u DDP_EMULATOR_SEED");
  EXPECT_EQ(first.name, "\\.EmulatedFaults\\.DISABLED_MissingWait$");
  EXPECT_TRUE(std::regex_search("train.EmulatedFaults.DISABLED_MissingWait", std::regex(first.name)));
  const Failed again = run_with_missing_wait("DDP_EMULATOR_SEED=" + first.seed);
  EXPECT_EQ(again.seed, first.seed);
  EXPECT_EQ(again.text, first.text);  // has the distance of the losses
  const Failed drawn = run_with_missing_wait("DDP_EMULATOR_SEED=4026531840"),
               twice = run_with_missing_wait("DDP_EMULATOR_SEED=4026531840");
  EXPECT_EQ(drawn.text, twice.text);
}

}  // namespace
}  // namespace ddp::testing
