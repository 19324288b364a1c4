#include "app/commands/watch/watch_options.h"

#include "app/options/parse_command.h"

#include <CLI/CLI.hpp>

namespace ddp {

WatchOptions parse_watch_options(std::span<const std::string> arguments, std::optional<std::string>& answer) {
  WatchOptions options;
  CLI::App app(
      "Shows a run and what each of its ranks does, from another terminal or another host that sees its folder, until "
      "the run has ended. Where the output is no terminal, prints this once.",
      "ddp_train watch");
  app.add_option("RUN", options.run, "folder of the run")->required();
  parse_command(app, arguments, answer);
  return options;
}

}  // namespace ddp
