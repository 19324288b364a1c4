// The bucket plan by measurement: what a run keeps, and what gives constant sizes.
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/run_folder.h"

#include <string>

namespace ddp::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// The measured buckets that a checkpoint keeps; empty: none.
std::string buckets_in(const fs::path& run, int step) { return kept_in(run, step, "buckets"); }

std::string banner_of(const Outcome& outcome) {
  const size_t begin = outcome.output.find("allreduce by shared memory, ");
  return begin == std::string::npos ? "" : outcome.output.substr(begin, outcome.output.find('\n', begin) - begin);
}

// The resumed run begins inside an epoch. Costs that were measured again would differ in some digit.
TEST(Buckets, AreMeasuredOnceInARun) {
  const TempFolder folder;
  few_images(folder / "images", 128, 16);
  const std::string options =
      fmt::format("--data-path {} --batch-size 16 --print-freq 0 --eval-every 0", (folder / "images").string());
  const auto train = [&](int ranks, const char* name, const std::string& more) {
    Outcome outcome = program(ranks, fmt::format("{} --output-dir {} {}", options, (folder / name).string(), more));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  };
  const std::string saves = "--save-every 3steps --keep-last 4 --max-steps 6 ",
                    resume = saves + "--resume " + (folder / "run/checkpoints/step-00000003").string();
  const Outcome whole = train(2, "run", saves);
  const std::string kept = buckets_in(folder / "run", 3);
  ASSERT_NE(kept, "");
  const size_t buckets = json::parse(kept).at("begins").size();
  EXPECT_EQ(count(whole.output, fmt::format("{} bucket{} by measurement: ", buckets, buckets == 1 ? "" : "s")), 1)
      << whole.output;
  EXPECT_EQ(buckets_in(folder / "run", 6), kept);

  const Outcome resumed = train(2, "resumed", resume);
  EXPECT_EQ(count(resumed.output, "not bit-identical"), 0) << resumed.output;
  EXPECT_EQ(banner_of(resumed), banner_of(whole));
  EXPECT_EQ(buckets_in(folder / "resumed", 6), kept);
  EXPECT_TRUE(read_file(folder / "resumed/model.safetensors") == read_file(folder / "run/model.safetensors"));

  const Outcome more_ranks = train(3, "more_ranks", resume);
  EXPECT_EQ(count(more_ranks.output, "bucket plan was "), 1) << more_ranks.output;
  EXPECT_EQ(count(more_ranks.output, " by measurement: "), 1) << more_ranks.output;
  EXPECT_NE(buckets_in(folder / "more_ranks", 6), kept);

  const Outcome given = train(2, "given", resume + " --bucket-cap-mb 0.05");
  EXPECT_EQ(count(given.output, "bucket plan was "), 1) << given.output;
  EXPECT_EQ(count(given.output, "5 buckets by a cap of 0.05 MiB: "), 1) << given.output;
  EXPECT_EQ(buckets_in(folder / "given", 6), "");

  const Outcome deterministic = train(2, "deterministic", "--deterministic --max-steps 1");
  EXPECT_EQ(count(deterministic.output, "3 buckets by a cap of 8 MiB: "), 1) << deterministic.output;
}

}  // namespace
}  // namespace ddp::testing
