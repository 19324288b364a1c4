#include "app/options/options.h"

#include "app/options/config_file.h"
#include "app/options/option_table.h"
#include "app/options/parse_command.h"

#include <CLI/CLI.hpp>

#include <vector>

namespace ddp {
namespace {

// Sets effective_config and named to given values and defaults. Omits empty values, and the default of a row whose
// condition is not met.
void note_effective_config(const CLI::App& app, Options& o) {
  std::string& text = o.effective_config;
  text = "# The effective configuration of this run; use it again with --config.\n";
  for_each_row([&](const OptionRow& row) {
    const CLI::Option* const option = app.get_option(row.name);
    if (!row.configurable || (option->count() == 0 && !row.condition.met_by(o))) return;
    std::string value = option->count() == 0 ? option->get_default_str() : "";
    for (const std::string& part : option->results()) value += (value.empty() ? "" : ",") + part;
    if (value.empty()) return;
    text += toml_entry(option->get_single_name(), value, option->get_type_name() == "TEXT");
    o.named[row.name] = value;
  });
}

NamedValues given_values(const CLI::App& app) {
  NamedValues given;
  for_each_row([&](const OptionRow& row) {
    std::string value;
    for (const std::string& part : app.get_option(row.name)->results()) value += (value.empty() ? "" : ",") + part;
    if (app.get_option(row.name)->count() > 0) given[row.name] = value;
  });
  return given;
}

// Adds an option to a command line. A flag takes its value behind a "=" only; behind a "=" another option takes no
// empty value.
void add_words(std::vector<std::string>& words, const CLI::Option& option, const std::string& value) {
  const std::string name = option.get_single_name();
  if (option.get_expected_min() == 0) return words.push_back(fmt::format("--{}={}", name, value));
  words.insert(words.end(), {"--" + name, value});
}

}  // namespace

Options options_of(const NamedValues& given, const NamedValues& kept) {
  Options o;
  CLI::App app("", "ddp_train");
  declare(app, o);
  NamedValues values = given;
  values.insert(kept.begin(), kept.end());
  std::vector<std::string> words;
  for (const auto& [name, value] : values)
    if (const CLI::Option* const option = app.get_option_no_throw(name)) add_words(words, *option, value);
  std::optional<std::string> answer;
  parse_command(app, words, answer);
  complete_schedule(o);

  NamedValues effective = kept;
  for_each_row([&](const OptionRow& row) {
    if (!row.condition.met_by(o) && !given.contains(row.name)) effective.erase(row.name);
  });
  if (effective.size() < kept.size()) return options_of(given, effective);
  std::erase_if(effective, [&](const auto& value) { return given.empty() || given.contains(value.first); });
  require_rows_fit(app, o, {}, effective);
  note_effective_config(app, o);
  o.given = given;
  return o;
}

Options parse_options(int argc, const char* const* argv, std::optional<std::string>& answer) {
  Options o;
  CLI::App app("Data-parallel training over MPI: mpirun -np N ./ddp_train [options]", "ddp_train");
  app.footer(
      "ddp_train inspect PATH prints what is in a checkpoint, a run's newest one, or a safetensors file.\n"
      "ddp_train predict RUN FILES prints what a trained network sees in pictures; see ddp_train predict --help.\n"
      "ddp_train export RUN writes a trained network for other programs; see ddp_train export --help.\n"
      "ddp_train watch RUN shows a run and its ranks from another terminal.\n"
      "ddp_train evaluate RUN measures a trained network on labelled data, on any number of ranks; see ddp_train "
      "evaluate --help.\n"
      "ddp_train report RUNS writes one HTML page of one or several runs; see ddp_train report --help.\n"
      "ddp_train lr-find [options] tries learning rates for a few steps, on any number of ranks, and suggests one; see "
      "ddp_train lr-find --help.\n"
      "ddp_train plan --profile RUN --world N predicts a training on N ranks from a run on fewer; see ddp_train plan "
      "--help.\n"
      "ddp_train show --output FILE.png [options] shows the training pictures as the network gets them; see ddp_train "
      "show --help.\n"
      "ddp_train show-model MODEL_OR_RUN prints and draws the layers of a network; see ddp_train show-model --help.\n"
      "ddp_train tokenize TEXTS writes texts as tokens, to train on; see ddp_train tokenize --help.");
  app.set_version_flag("--version", std::string("ddp_train ") + DDP_VERSION);
  declare(app, o);
  if (!parse_command(app, std::vector<std::string>(argv + 1, argv + argc), answer)) return o;
  complete_schedule(o);
  require_rows_fit(app, o);
  note_effective_config(app, o);
  o.given = given_values(app);
  return o;
}

Options parse_training(std::span<const std::string> arguments, const char* command) {
  std::vector<const char*> words{"ddp_train"};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  std::optional<std::string> answer;
  Options options = parse_options(static_cast<int>(words.size()), words.data(), answer);
  const ActionConfig& action = options.action;
  const bool other = answer || action.plan || action.layer_times || action.doctor || action.json || action.print_order;
  require(!other && options.checkpoint.resume.empty(), Exit::usage,
          "{0} takes no option of another action, such as --plan, and no --resume; ddp_train {0} --help lists the "
          "options",
          command);
  return options;
}

}  // namespace ddp
