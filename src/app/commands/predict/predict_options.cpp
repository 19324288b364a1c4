#include "app/commands/predict/predict_options.h"

#include "app/options/parse_command.h"
#include "core/error.h"

#include <CLI/CLI.hpp>

#include <map>

namespace ddp {

constexpr const char* kText = "Continuation of a text";

PredictOptions parse_predict_options(std::span<const std::string> arguments, std::optional<std::string>& answer) {
  PredictOptions options;
  DescriptionOptions description;
  CLI::App app(
      "Says what a trained network sees in pictures, one line a file. A broken file is a line with its error; the exit "
      "code is then 3. On any number of ranks, mpirun -np N ddp_train predict ... writes the same lines. A network "
      "that reads tokens continues texts.",
      "ddp_train predict");
  app.add_option("RUN_OR_MODEL", options.weights, "folder of a run, checkpoint, or safetensors file")->required();
  app.add_option(
         "FILES", options.files,
         "pictures; folders, for all pictures below them; for a network that reads tokens, texts to continue; - for a "
         "list of these on the standard input, one a line")
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
  const auto of_text = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str()->group(kText);
  };
  of_text("--max-new-tokens", options.most_tokens,
          "greatest number of tokens of a continuation, which <|endoftext|> may end earlier")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  of_text("--temperature", options.draw.temperature,
          "divides the logits of which each token is drawn; 0: the most probable token")
      ->check(CLI::Range(0.0, 1e6));
  of_text("--sample-top-k", options.draw.top_k, "draw from the K most probable tokens; 0: from all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  of_text("--seed", options.draw.seed, "seed of the draws: the same seed and texts give the same continuations");
  of_text("--vocabulary", options.vocabulary, "file with GPT-2's merges, or bytes; default: vocabulary.txt of the run");
  description.declare(app);
  if (!parse_command(app, arguments, answer)) return options;
  options.format = !options.csv.empty() ? PredictionFormat::csv : formats.at(json ? "jsonl" : format);
  options.network = description.read(app);
  for (const char* const name : {"--csv", "--top-k"})
    if (app.count(name) > 0) options.of_pictures.emplace_back(name);
  if (format == "csv") options.of_pictures.emplace_back("--format csv");
  for (const CLI::Option* const option : app.get_options())
    if (option->get_group() == kText && option->count() > 0) options.of_texts.push_back(option->get_name());
  return options;
}

}  // namespace ddp
