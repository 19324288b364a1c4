#include "app/commands/lr_find/lr_find_options.h"

#include "app/options/option_table.h"
#include "app/options/parse_command.h"
#include "core/error.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

namespace ddp {
namespace {

// The test tries the rates itself, ends by its own steps, evaluates nothing, keeps no average of the weights and writes
// no run folder.
bool is_unused(std::string_view group, std::string_view name) {
  constexpr std::string_view kGroups[] = {"Learning rate", "Checkpoints", "Output"};
  constexpr std::string_view kNames[] = {"--epochs",    "--max-steps",       "--eval-every",      "--early-stop",
                                         "--model-ema", "--model-ema-decay", "--model-ema-steps", "--skip-bad-steps",
                                         "--bn-stats",  "--check-every"};
  return std::ranges::count(kGroups, group) > 0 || std::ranges::count(kNames, name) > 0;
}

void refuse_unused(std::span<const std::string> words) {
  for (const OptionGroup& group : option_table())
    for (const OptionRow& row : group.rows) {
      const auto names_row = [&](const std::string& word) { return word.substr(0, word.find('=')) == row.name; };
      require(!is_unused(group.name, row.name) || std::ranges::none_of(words, names_row), Exit::usage,
              "lr-find does not use {}; leave it out, or keep it in the file of --config, which describes the run",
              row.name);
    }
}

}  // namespace

LrFindOptions parse_lr_find_options(std::span<const std::string> arguments, std::optional<std::string>& answer) {
  constexpr double kLeastRate = 1e-30;
  LrFindOptions options;
  CLI::App app(
      "Suggests a learning rate: trains through --steps steps at rates that grow from --from to --to, each by the same "
      "factor, until the loss explodes. The options of a training stand here too, as in its command: the data, the "
      "network, the batch and the optimizer are those of the run; ddp_train --help lists them. The test begins with "
      "the run's initial weights, saves none, and writes nothing but its page.",
      "ddp_train lr-find");
  app.allow_extras();
  app.option_defaults()->always_capture_default();
  app.add_option("--steps", options.range.steps, "steps of the test")->check(CLI::Range(20, 1'000'000));
  app.add_option("--from", options.range.from, "learning rate of the first step")
      ->check(number(kLeastRate, kLargestFloat));
  app.add_option("--to", options.range.to, "learning rate of the last step")->check(number(kLeastRate, kLargestFloat));
  app.add_option("--output", options.output,
                 "HTML file with the curve; an earlier page of this program is replaced, another file is not");
  if (!parse_command(app, arguments, answer)) return options;
  require(options.range.from < options.range.to, Exit::usage, "--from {:g} must be below --to, which is {:g}",
          options.range.from, options.range.to);
  require(options.output.extension() == ".html", Exit::usage, "--output {}: the name must end in .html",
          options.output.string());
  const std::vector<std::string> rest = app.remaining();
  refuse_unused(rest);
  options.training = parse_training(rest, "lr-find");
  require(!options.training.batch.balanced, Exit::usage,
          "lr-find takes no --rank-weights auto: shards change after an epoch only; leave it out, or give weights");
  return options;
}

}  // namespace ddp
