#include "app/commands/predict/predict_options.h"

#include "app/options/parse_command.h"
#include "core/error.h"

#include <CLI/CLI.hpp>

#include <map>

namespace ddp {

PredictOptions parse_predict_options(std::span<const std::string> arguments, std::optional<std::string>& answer) {
  PredictOptions options;
  DescriptionOptions description;
  CLI::App app(
      "Says what a trained network sees in pictures, one line a file. A broken file is a line with its error; the exit "
      "code is then 3. On any number of ranks, mpirun -np N ddp_train predict ... writes the same lines.",
      "ddp_train predict");
  app.add_option("RUN_OR_MODEL", options.weights, "folder of a run, checkpoint, or safetensors file")->required();
  app.add_option(
         "FILES", options.files,
         "pictures; folders, for all pictures below them; - for a list of these on the standard input, one a line")
      ->required();
  app.add_flag("--ema", options.ema, "use the average of the weights, of a run with --model-ema");
  const std::map<std::string, PredictionFormat> formats{
      {"text", PredictionFormat::text}, {"csv", PredictionFormat::csv}, {"jsonl", PredictionFormat::jsonl}};
  std::string format = "text";
  CLI::Option* const form = app.add_option("--format", format, "form of the lines")
                                ->check(CLI::IsMember({"text", "csv", "jsonl"}))
                                ->capture_default_str();
  bool json = false;
  CLI::Option* const json_lines = app.add_flag("--json", json, "short for --format jsonl")->excludes(form);
  app.add_option("--csv", options.csv, "write the lines to this new file, as --format csv does")
      ->excludes(form)
      ->excludes(json_lines);
  app.add_option("--top-k", options.top_k, "number of classes in a line, the most probable first")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads that decode and compute; 0: one for each core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  description.declare(app);
  if (!parse_command(app, arguments, answer)) return options;
  options.format = !options.csv.empty() ? PredictionFormat::csv : formats.at(json ? "jsonl" : format);
  options.network = description.read(app);
  return options;
}

}  // namespace ddp
