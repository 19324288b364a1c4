#include "app/commands/evaluate/evaluate_options.h"

#include "app/options/option_table.h"
#include "app/options/parse_command.h"
#include "core/error.h"

#include <CLI/CLI.hpp>

#include <vector>

namespace ddp {
namespace {

constexpr BorrowedRow kRows[] = {
    {"--dataset"},
    {"--data-path"},
    {"--labels"},
    {"--val-split",
     "evaluate only this share of each class, for pictures that have no validation part; chosen by --seed, class and "
     "path, as in training; of tokens the last share"},
    {"--coarse-labels"},
    {"--token-type"},
    {"--workers"},
    {"--check-data",
     "what to check of the pictures before the evaluation; full: decodes those that have changed since an earlier "
     "check; "
     "none: broken ones are found later; auto: headers, with --on-error skip full"},
    {"--on-error", "what to do about a picture that cannot be read; skip: evaluate without it"},
    {"--batch-size", "samples of a batch over all ranks"},
    {"--seed", "that of the training, for --val-split"},
    {"--device"},
    {"--threads"},
    {"--precision", "precision of multiplications; auto: that of the training, where this device has it"},
    {"--share-gpu"},
    {"--step-timeout",
     "longest time, s, of a batch before the job ends with the rank to blame; auto: at least 60; 0: no limit"},
    {"--output-dir", "folder for evaluation.json and confusion.csv, refused if it holds a run; default: no files"},
};

}  // namespace

EvaluateOptions parse_evaluate_options(std::span<const std::string> arguments, std::optional<std::string>& answer) {
  EvaluateOptions result;
  DescriptionOptions description;
  CLI::App app(
      "Measures a trained network on labelled data, on any number of ranks: mpirun -np N ddp_train evaluate "
      "RUN_OR_MODEL [options]. It evaluates the validation part of the data, as the training does, or the part that "
      "--val-split chooses; data without either are evaluated whole. Classes are matched by name.",
      "ddp_train evaluate");
  app.add_option("RUN_OR_MODEL", result.weights, "folder of a run, checkpoint, or safetensors file")->required();
  app.add_flag("--ema", result.ema, "evaluate the average of the weights, of a run with --model-ema");
  declare(app, result.options, kRows);
  description.declare(app);
  if (!parse_command(app, arguments, answer)) return result;
  require_rows_fit(app, result.options, kRows);
  require(!result.options.batch.largest, Exit::usage, "--batch-size max is for a training: give evaluate a number");
  require(app.count("--seed") == 0 || result.options.data.val_split > 0, Exit::usage, "--seed needs --val-split");
  result.network = description.read(app);
  return result;
}

}  // namespace ddp
