// Each row of the option table names the test that shows what the option does in the program.
#include "app/options/option_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace ddp {
namespace {

struct Effects {
  const char* file;  // in tests/
  const char* test;  // Suite.Case in C++, else the name of a function or a class
  std::vector<const char*> options;
};

const std::vector<Effects> kEffects{
    {"system/cli/update_options_test.cpp",
     "UpdateOptions.ChangeTheWeightsByTheirFormula",
     {"--batch-size", "--clip-grad-norm", "--lr", "--optimizer", "--momentum", "--nesterov", "--weight-decay",
      "--decay", "--no-decay-bias-norm", "--adam-beta1", "--adam-beta2", "--adam-epsilon", "--lars-trust", "--group",
      "--head-lr"}},
    {"system/cli/update_options_test.cpp", "UpdateOptions.LabelSmoothingSpreadsTheTarget", {"--label-smoothing"}},
    {"system/cli/update_options_test.cpp",
     "UpdateOptions.Bf16RoundsGradientsOrMultiplications",
     {"--grad-dtype", "--precision"}},
    {"system/cli/update_options_test.cpp", "UpdateOptions.InitChoosesTheFirstWeights", {"--init"}},
    {"system/cli/mix_options_test.cpp",
     "MixOptions.MixEachSampleWithTheOneBeforeIt",
     {"--mixup-alpha", "--cutmix-alpha"}},
    {"system/cli/mix_options_test.cpp", "MixOptions.RandomEraseErasesABoxOfEachPicture", {"--random-erase"}},
    {"system/cli/mix_options_test.cpp", "MixOptions.LabelWeightsWeighTheGradient", {"--label-weights"}},
    {"system/cli/update_options_test.cpp", "UpdateOptions.FreezeKeepsTensorsAndMovesTheOthers", {"--freeze"}},
    {"system/cli/rate_options_test.cpp",
     "RateOptions.GiveTheseRatesThroughAResume",
     {"--lr-scale", "--lr-base-batch", "--lr-scheduler", "--lr-step-size", "--lr-gamma", "--lr-milestones", "--lr-min",
      "--lr-warmup-epochs", "--lr-warmup-method", "--lr-warmup-decay", "--lr-power", "--lr-pct-start",
      "--lr-div-factor", "--lr-final-div-factor", "--lr-anneal"}},
    {"system/cli/plateau_options_test.cpp",
     "PlateauOptions.ReduceTheRateByTheEvaluations",
     {"--lr-plateau-metric", "--lr-plateau-patience", "--lr-plateau-threshold", "--lr-plateau-cooldown"}},
    {"system/cli/plateau_options_test.cpp", "PlateauOptions.EarlyStopEndsTheRun", {"--early-stop"}},
    {"system/cli/average_options_test.cpp",
     "AverageOptions.SaveAndEvaluateTheAverage",
     {"--model-ema", "--model-ema-decay", "--model-ema-steps"}},
    {"system/cli/equal_options_test.cpp",
     "EqualOptions.ChangeTheWeightsByRoundingOnly",
     {"--accumulate", "--allreduce", "--sync-bn", "--model"}},
    {"system/cli/balance_options_test.cpp",
     "BalanceOptions.GiveASlowRankFewerSamplesAndAResumedRunTheSame",
     {"--rank-weights"}},
    {"system/cli/equal_options_test.cpp", "EqualOptions.ConvDirectChangesLossesByRoundingOnly", {"--conv"}},
    {"system/cli/equal_options_test.cpp", "EqualOptions.ZeroSharesTheStateOfTheOptimizer", {"--zero"}},
    {"system/cli/equal_options_test.cpp", "EqualOptions.ThreadsComputeInARank", {"--threads"}},
    {"system/cli/equal_options_test.cpp",
     "EqualOptions.SeedChoosesWeightsOrderAndDropout",
     {"--seed", "--print-order"}},
    {"system/cli/run_options_test.cpp",
     "RunOptions.GiveThisCourse",
     {"--epochs", "--max-steps", "--train-samples", "--eval-every", "--print-freq", "--save-every", "--keep-last"}},
    {"system/cli/run_options_test.cpp", "RunOptions.KeepBestKeepsTheBestCheckpoint", {"--keep-best"}},
    {"system/cli/run_options_test.cpp", "RunOptions.SkipBadStepsLeavesTheWeightsAsTheyAre", {"--skip-bad-steps"}},
    {"system/cli/run_options_test.cpp", "RunOptions.BnStatsAreRecomputedOrRunning", {"--bn-stats"}},
    {"system/cli/run_options_test.cpp", "RunOptions.MetricsAddressIsListenedOn", {"--metrics-address"}},
    {"system/cli/run_options_test.cpp",
     "RunOptions.ForGpusAreRefusedWithoutOne",
     {"--share-gpu", "--no-graph", "--programmatic-launch", "--device-data-mb"}},
    {"system/cli/measured_kernels_test.cpp", "MeasuredKernels.AreKeptAndReused", {"--engine-seconds", "--engine-file"}},
    {"system/cli/input_options_test.cpp",
     "InputOptions.CropsOfTheWholePictureEqualIt",
     {"--train-transform", "--train-crop-size", "--val-resize-size", "--rrc-scale", "--rrc-ratio"}},
    {"system/cli/input_options_test.cpp", "InputOptions.InterpolationNearestRepeatsPixels", {"--interpolation"}},
    {"system/cli/input_options_test.cpp", "InputOptions.ChannelsOfOneAreGrey", {"--channels"}},
    {"system/cli/input_options_test.cpp", "InputOptions.ExifIgnoreKeepsTheStoredOrientation", {"--exif"}},
    {"system/cli/input_options_test.cpp", "InputOptions.AlphaChoosesTheBackground", {"--alpha"}},
    {"system/cli/input_options_test.cpp", "InputOptions.DatasetChoosesAmongTheKindsOfAFolder", {"--dataset"}},
    {"system/cli/input_options_test.cpp", "InputOptions.CoarseLabelsAreTheFirstBytes", {"--coarse-labels"}},
    {"system/cli/input_options_test.cpp", "InputOptions.CheckDataLooksAtHeadersPixelsOrNothing", {"--check-data"}},
    {"system/cli/show_test.cpp",
     "Show.WritesTheBatchesOfTheSteps",
     {"--crop-padding", "--padding-mode", "--hflip", "--mean", "--std"}},
    {"system/cli/show_test.cpp", "Show.AppliesTheDrawnOperationsFirst", {"--auto-augment", "--ra-magnitude"}},
    {"system/cli/evaluate_test.cpp", "Evaluate.EqualsATrainingThatEvaluatesLargerImages", {"--val-crop-size"}},
    {"system/cli/pictures_test.cpp", "PicturesOfIdxImages.GiveTheWeightsOfTheIdxRun", {"--data-path", "--labels"}},
    {"system/cli/pictures_test.cpp", "PictureFolder.SplitsOffTheSameValidationDataAtAnyWorldSize", {"--val-split"}},
    {"system/cli/pictures_test.cpp", "PictureFolder.LeavesOutBrokenPicturesIfAsked", {"--on-error"}},
    {"system/cli/pictures_test.cpp", "PictureFolder.OnASlowDiskLimitTheRun", {"--workers"}},
    {"system/cli/tokens_test.cpp",
     "Tokens.OptionsSayWhatTheFilesHold",
     {"--sequence-length", "--vocab-size", "--vocabulary", "--token-type"}},
    {"system/cli/run_test.cpp", "Run.WritesItsResults", {"--init-from", "--output-dir"}},
    {"system/cli/finetune_test.cpp", "FineTune.BeginsAHeadNewAndKeepsTheRest", {"--new-head"}},
    {"system/cli/run_test.cpp", "Run.GivesTheSameBitsOnEveryRun", {"--deterministic"}},
    {"system/cli/run_test.cpp", "Run.InstructionSetOfTheCpuIsLimited", {"--cpu-isa"}},
    {"system/cli/run_test.cpp",
     "Run.PlanPrintsBucketsMemoryAndTimes",
     {"--plan", "--bucket-cap-mb", "--first-bucket-mb"}},
    {"system/cli/run_test.cpp", "Run.LayerTimesPrintsTheLayersThatRun", {"--layer-times"}},
    {"system/cli/resume_bytes_test.cpp", "Resume.AfterAKillEndsWithTheSameBytes", {"--resume"}},
    {"system/cli/resume_test.cpp", "Checkpointed.ChangesOptionsInsideAnEpoch", {"--change"}},
    {"system/cli/bad_input_test.cpp",
     "BadInput.GivesOneMessageAndTheExitCode",
     {"--device", "--nccl-algo", "--transport"}},
    {"system/cli/injection_test.cpp", "Injected.EndsAsDocumented", {"--inject", "--check-every", "--step-timeout"}},
    {"system/terminal/bar_test", "test_lines_in_files_and_pipes", {"--progress"}},
    {"system/trace/trace_test", "test_all_tracks_of_all_ranks", {"--trace", "--trace-steps"}},
    {"system/readers/tensorboard_test.py", "check_resumed", {"--tensorboard"}},
    {"system/readers/metrics_test.py", "check_live_run", {"--metrics-port"}},
    {"system/doctor/doctor_test", "test_healthy", {"--doctor", "--json"}}};

std::string content_of(const std::string& file) {
  std::ostringstream content;
  content << std::ifstream(std::string(DDP_TREE) + "/tests/" + file).rdbuf();
  return content.str();
}

TEST(OptionEffects, EachRowNamesTheTestThatShowsIt) {
  std::map<std::string, int> named;
  for (const Effects& effects : kEffects) {
    const std::string content = content_of(effects.file);
    const std::string test = std::regex_replace(std::string(effects.test), std::regex("\\."), ", *");
    EXPECT_TRUE(std::regex_search(content, std::regex("\\b" + test + "[(:)]"))) << effects.file << ": " << effects.test;
    for (const char* option : effects.options) {
      EXPECT_TRUE(std::regex_search(content, std::regex(std::string(option) + "(?![a-z0-9-])")))
          << effects.file << ": " << option;
      ++named[option];
    }
  }
  for_each_row([&](const OptionRow& row) {
    EXPECT_EQ(named[row.name], 1) << row.name << ": give kEffects the test that shows what it does";
    named.erase(row.name);
  });
  for (const auto& [option, times] : named) ADD_FAILURE() << option << " is no option";
}

}  // namespace
}  // namespace ddp
