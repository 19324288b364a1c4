// Options of the training.
#include "app/options/option_table.h"
#include "train/evaluation/precise_bn.h"

#include <fmt/format.h>

namespace ddp {
namespace {

constexpr int64_t kMostSteps = int64_t{1} << 40;

std::string conflict_of_alpha(double alpha) {
  return alpha == 0 || alpha >= kLeastMixAlpha ? "" : fmt::format("must be 0 or at least {:g}", kLeastMixAlpha);
}

std::string conflict_of_label_weights(const Options& o) {
  if (o.label_weights.empty()) return "";
  if (o.replica.mix.any()) return "excludes --mixup-alpha and --cutmix-alpha: a mixed sample has two labels";
  if (o.replica.label_smoothing > 0) return "excludes --label-smoothing, which gives a sample a share of all labels";
  return "";
}

// A number, or max.
CLI::Option* batch_size(CLI::App& app, const std::string& name, Options& options) {
  const auto set = [&options](const std::string& text) {
    options.batch.largest = text == "max";
    options.batch.size = BatchConfig::kUnknown;
    if (!options.batch.largest) CLI::detail::lexical_cast(text, options.batch.size);
  };
  const CLI::Range range(int64_t{1}, BatchConfig::kUnknown);
  const auto check = [range](std::string& text) { return text == "max" ? std::string() : range(text); };
  return app.add_option_function<std::string>(name, set)
      ->check(CLI::Validator(check, range.get_description() + " or max"))
      ->type_name("INT")
      ->default_str(fmt::format("{}", options.batch.size));
}

constexpr Condition kWithPlateau{"with --lr-scheduler plateau", rate_depends_on_evaluations};
constexpr Condition kOfAverage{"needs --model-ema", [](const Options& o) { return o.replica.averages; }};

std::string conflict_of_accumulate(const Options& o) {
  const bool fits = o.train.step.micro_batches <= o.batch.size;
  return fits ? "" : fmt::format("must be at most --batch-size, which is {}", o.batch.size);
}

}  // namespace

bool evaluates(const Options& o) { return o.train.eval_every > 0; }

OptionGroup training_options() {
  return {
      "Training",
      {{.name = "--batch-size",
        .target = batch_size,
        .on_resume = OnResume::fixed("the number of a step and the place in the epoch count its batches"),
        .help = "samples of a step over all ranks; max: as many as fit in memory, which the run records"},
       {.name = "--accumulate",
        .target = to([](Options & o) -> auto& { return o.train.step.micro_batches; }),
        .on_resume = Effect::results,
        .help = "micro-batches of a step: they divide the --batch-size samples and share one communication",
        .check = CLI::Range(1, 1 << 20),
        .conflict = conflict_of_accumulate},
       {.name = "--epochs",
        .target = to([](Options & o) -> auto& { return o.train.epochs; }),
        .on_resume = {Effect::results,
                      {"with --lr-scheduler cosine, linear, polynomial or onecycle", rate_depends_on_epochs}},
        .help = "epochs of the run",
        .check = CLI::Range(int64_t{1}, int64_t{1'000'000'000})},
       {.name = "--max-steps",
        .target = to([](Options & o) -> auto& { return o.train.max_steps; }),
        .on_resume = Effect::nothing,
        .help = "stop after N steps of the run; 0: no limit",
        .check = CLI::NonNegativeNumber},
       {.name = "--seed",
        .target = to([](Options & o) -> auto& { return o.seed; }),
        .on_resume = OnResume::fixed("the order of the samples in the epoch follows from it"),
        .help = "seed of initial weights, order of samples, augmentation, erasing, mixing and dropout"},
       {.name = "--eval-every",
        .target = to([](Options & o) -> auto& { return o.train.eval_every; }),
        .on_resume = {Effect::results, kWithPlateau},
        .help = "epochs between evaluations; 0: none",
        .check = CLI::NonNegativeNumber},
       {.name = "--early-stop",
        .target = to([](Options & o) -> auto& { return o.train.early_stop; }),
        .on_resume = Effect::nothing,
        .help =
            "end the run after N evaluations in a row without a better one, as --keep-best judges them; 0: no early "
            "end",
        .check = CLI::NonNegativeNumber,
        .condition = {"needs --eval-every above 0", evaluates}},
       {.name = "--model-ema",
        .target = to([](Options & o) -> auto& { return o.replica.averages; }),
        .on_resume = OnResume::fixed("the average begins with the run"),
        .help = "keep an exponential moving average (EMA) of the weights and of the batch-norm statistics; evaluate it "
                "too, with these statistics, and save it as model_ema.safetensors; --keep-best and --early-stop judge "
                "it in place of the weights"},
       {.name = "--model-ema-decay",
        .target = to([](Options & o) -> auto& { return o.train.average.decay; }),
        .on_resume = Effect::results,
        .help = "decay of the average in an update, used as given; torchvision's train.py adapts it to batch, ranks "
                "and epochs",
        .check = number(0, 1),
        .condition = kOfAverage},
       {.name = "--model-ema-steps",
        .target = to([](Options & o) -> auto& { return o.train.average.every; }),
        .on_resume = Effect::results,
        .help = "steps between updates of the average, from the first step on; the first update and those of the "
                "warm-up copy the weights",
        .check = CLI::Range(int64_t{1}, kMostSteps),
        .condition = kOfAverage},
       {.name = "--label-smoothing",
        .target = to([](Options & o) -> auto& { return o.replica.label_smoothing; }),
        .on_resume = Effect::results,
        .help = "share of the target that is spread over all classes, in training",
        .check = number(0, 1)},
       {.name = "--mixup-alpha",
        .target = to([](Options & o) -> auto& { return o.replica.mix.mixup_alpha; }),
        .on_resume = {Effect::results, {"with mixup", [](const Options& o) { return o.replica.mix.mixup_alpha > 0; }}},
        .help = "mixup: mixes each training sample and its label with the one before it in the batch, by a share from "
                "Beta(A, A) for each batch; 0: off; with --cutmix-alpha, each batch has one of the two",
        .check = number(0, kMostMixAlpha),
        .conflict = [](const Options& o) { return conflict_of_alpha(o.replica.mix.mixup_alpha); }},
       {.name = "--cutmix-alpha",
        .target = to([](Options & o) -> auto& { return o.replica.mix.cutmix_alpha; }),
        .on_resume = {Effect::results,
                      {"with CutMix", [](const Options& o) { return o.replica.mix.cutmix_alpha > 0; }}},
        .help = "CutMix: pastes a box of the sample before it in the batch into each training sample, with a share of "
                "its label; the share of the rest is from Beta(A, A) for each batch; 0: off",
        .check = number(0, kMostMixAlpha),
        .conflict = [](const Options& o) { return conflict_of_alpha(o.replica.mix.cutmix_alpha); }},
       {.name = "--label-weights",
        .target = to([](Options & o) -> auto& { return o.label_weights; }),
        .on_resume = {Effect::results, "label weights"},
        .help = "weights of the classes in the training loss, which is divided by the sum of the weights of the batch; "
                "balanced: classes count alike; else a CSV file with the columns class (name or number) and weight",
        .conflict = conflict_of_label_weights},
       {.name = "--clip-grad-norm",
        .target = to([](Options & o) -> auto& { return o.replica.max_grad_norm; }),
        .on_resume = Effect::results,
        .help = "largest norm of all gradients together; 0: no limit",
        .check = number(0, kLargestFloat)},
       {.name = "--skip-bad-steps",
        .target = to([](Options & o) -> auto& { return o.train.step.skip_limit; }),
        .on_resume = Effect::nothing,
        .help = "tolerate up to N consecutive steps with NaN or infinity in a gradient: such a step leaves the weights "
                "as they are; 0: the first one ends the run",
        .check = CLI::NonNegativeNumber},
       {.name = "--sync-bn",
        .target = to([](Options & o) -> auto& { return o.replica.sync_bn; }),
        .on_resume = Effect::results,
        .help = "batch norms normalise by the global batch, so that the number of ranks changes no result"},
       {.name = "--bn-stats",
        .target = one_of<bool>(
            {{"running", false}, {"recompute", true}}, [](Options & o) -> auto& { return o.network.recompute_bn; }),
        .on_resume = {Effect::results, kWithPlateau},
        .help = fmt::format("batch-norm statistics of an evaluation: running averages, or recomputed with the present "
                            "weights from up to {} training samples; default: recompute",
                            PreciseBn::kSamples),
        .condition = {"needs --eval-every above 0", evaluates}}}};
}

}  // namespace ddp
