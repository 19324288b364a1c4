#include "app/options.h"

#include "app/config_file.h"
#include "app/declare_options.h"
#include "app/option_rules.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <sstream>

namespace ddp {
namespace {

Init parse_init(const std::string& text) {
  if (text == "default") return {};
  if (text == "glorot") return {.kind = Init::Kind::glorot};
  const std::string prefix = "normal:";
  std::istringstream number(text.substr(0, prefix.size()) == prefix ? text.substr(prefix.size()) : "");
  double stddev = 0;
  number >> stddev;
  require(!number.fail() && number.eof() && stddev > 0 && std::isfinite(stddev), Exit::usage,
          "--init {}: give 'default', 'glorot', or 'normal:S' with a standard deviation S > 0, such as normal:0.01",
          text);
  return {Init::Kind::normal, stddev};
}

ScheduleDesc::Kind parse_scheduler(const std::string& text) {
  using Kind = ScheduleDesc::Kind;
  if (text == "step" || text == "steplr") return Kind::step;
  if (text == "multistep" || text == "multisteplr") return Kind::multi_step;
  if (text == "cosine" || text == "cosineannealinglr") return Kind::cosine;
  return text == "linear" ? Kind::linear : Kind::constant;
}

std::optional<double> parse_step_timeout(const std::string& text) {
  if (text == "auto") return std::nullopt;
  double seconds = 0;
  require(CLI::detail::lexical_cast(text, seconds) && seconds >= 0 && seconds <= 1e9, Exit::usage,
          "--step-timeout {}: give auto, or a number of seconds, 0 for none", text);
  return seconds;
}

void parse_texts(const OptionTexts& texts, Options& o) {
  o.init = parse_init(texts.init);
  o.allreduce = texts.allreduce == "ring" ? Allreduce::ring : Allreduce::automatic;
  o.grad_dtype = texts.grad_dtype == "bf16" ? DType::bf16 : DType::f32;
  o.direct_conv = texts.conv == "direct";

  using Kind = OptimizerDesc::Kind;
  o.optimizer.kind = texts.optimizer == "sgd" ? Kind::sgd : texts.optimizer == "lars" ? Kind::lars : Kind::adam;
  o.optimizer.decoupled = texts.optimizer == "adamw" || texts.decay == "decoupled";

  o.lr_scale = texts.lr_scale == "linear" ? RateScale::linear
               : texts.lr_scale == "sqrt" ? RateScale::sqrt
                                          : RateScale::none;
  o.schedule.kind = parse_scheduler(texts.lr_scheduler);
  o.schedule.warm_up =
      texts.lr_warmup_method == "constant" ? ScheduleDesc::WarmUp::constant : ScheduleDesc::WarmUp::linear;
  o.schedule.lr = scaled_lr(o.lr, o.lr_scale, o.batch_size, o.lr_base_batch);
  o.schedule.total_epochs = static_cast<double>(o.epochs);
  o.save_every = parse_save_every(texts.save_every);
  o.step_timeout = parse_step_timeout(texts.step_timeout);
}

// What was given or is the default, as a file that --config reads and by name; empty values, actions and defaults that
// do not apply are left out.
void note_effective_config(const CLI::App& app, Options& options) {
  std::string& text = options.effective_config;
  text = "# The effective configuration of this run; use it again with --config.\n";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_configurable() || option->get_name() == "--help") continue;
    if (option->count() == 0 && !option_applies(options, option->get_name())) continue;
    std::string value = option->count() == 0 ? option->get_default_str() : "";
    for (const std::string& part : option->results()) value += (value.empty() ? "" : ",") + part;
    if (value.empty()) continue;
    text += toml_entry(option->get_single_name(), value, option->get_type_name() == "TEXT");
    options.named[option->get_single_name()] = value;
  }
}

}  // namespace

Options parse_options(int argc, const char* const* argv, std::optional<std::string>& answer) {
  Options o;
  OptionTexts texts;
  CLI::App app("Data-parallel training over MPI: mpirun -np N ./ddp_train [options]", "ddp_train");
  app.footer("ddp_train inspect PATH prints what is in a checkpoint, a run's newest one, or a safetensors file.");
  app.set_version_flag("--version", std::string("ddp_train ") + DDP_VERSION);
  declare_options(app, o, texts);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    std::ostringstream text;
    app.exit(e, text, text);
    answer = text.str();
    return o;
  } catch (const CLI::ConfigError& e) {
    fail(Exit::usage, "configuration file: {}; its keys are the long options without dashes, see ddp_train --help",
         e.what());
  } catch (const CLI::ParseError& e) {
    fail(Exit::usage, "{}; ddp_train --help lists the options", e.what());
  }
  parse_texts(texts, o);
  if (app.get_option("--bn-stats")->count() > 0) o.recompute_bn = texts.bn_stats == "recompute";
  require_options_fit(o, [&](const std::string& name) { return app.get_option(name)->count() > 0; });
  note_effective_config(app, o);
  return o;
}

}  // namespace ddp
