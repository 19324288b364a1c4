#include "app/commands/show/show_options.h"

#include "app/options/parse_command.h"
#include "core/error.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <vector>

namespace ddp {
namespace {

constexpr const char* kHelp = "ddp_train show --help lists the options";

void require_files_fit(const ShowOptions& options) {
  const auto require_ending = [](const std::string& file, const char* option, const char* ending) {
    require(file.empty() || file.ends_with(ending), Exit::usage, "{} {}: the name must end in {}", option, file,
            ending);
  };
  require(!options.grid.empty() || !options.batches.empty(), Exit::usage,
          "show needs --output FILE.png, --batches FILE.npy, or both; {}", kHelp);
  require_ending(options.grid, "--output", ".png");
  require_ending(options.batches, "--batches", ".npy");
  require(options.batches.empty() == (options.steps == 0), Exit::usage, "--batches and --steps need each other; {}",
          kHelp);
}

}  // namespace

ShowOptions parse_show_options(std::span<const std::string> arguments, std::optional<std::string>& answer) {
  ShowOptions options;
  const bool names_data = !arguments.empty() && !arguments[0].starts_with('-');
  CLI::App app(
      "Shows the training pictures as the network gets them: ddp_train show [DATA] [options]. DATA comes first and "
      "stands "
      "for --data-path. All options of a training can stand here too, as in the "
      "command of the training; those that change no pixels have no effect. ddp_train --help lists them. Files that "
      "exist are not overwritten.",
      "ddp_train show");
  app.allow_extras();
  app.add_option("--output", options.grid,
                 "PNG file: the first 64 pictures of the epoch, before normalization, with the names of their classes");
  app.add_option("--batches", options.batches,
                 "NPY file: the batches of --steps steps as the network reads them, normalized, f32, in the order N, "
                 "C, H, W; the labels are in FILE.labels.npy");
  app.add_option(
         "--steps", options.steps,
         "number of steps, from the first one of the epoch; a step has --batch-size samples, the last one of an "
         "epoch has the rest")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--epoch", options.epoch, "epoch, from 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}))
      ->capture_default_str();
  if (!parse_command(app, arguments.subspan(names_data ? 1 : 0), answer)) return options;
  std::vector<std::string> rest = app.remaining();
  if (names_data) rest.insert(rest.begin(), {"--data-path", arguments[0]});
  options.training = parse_training(rest, "show");
  require(!options.training.batch.largest, Exit::usage,
          "--batch-size max is for a training: give show the number that the run has printed");
  require_files_fit(options);
  return options;
}

}  // namespace ddp
