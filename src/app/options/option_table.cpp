#include "app/options/option_table.h"

#include "app/options/config_file.h"
#include "nn/models.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

namespace ddp {
namespace {

std::string names_of_networks() {
  std::vector<std::string> names;
  for (const ModelFile& model : built_in_models()) names.push_back(model.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void set_init(Options& o, const std::string& text) {
  const std::string prefix = "normal:";
  Init& init = o.network.init;
  if (text == "default") {
    init = {};
  } else if (text == "glorot") {
    init = {.kind = Init::Kind::glorot};
  } else {
    std::istringstream number(text.starts_with(prefix) ? text.substr(prefix.size()) : "");
    init.kind = Init::Kind::normal;
    number >> init.stddev;
    require(!number.fail() && number.eof() && init.stddev > 0 && std::isfinite(init.stddev), Exit::usage,
            "--init {}: give 'default', 'glorot', or 'normal:S' with a standard deviation S > 0, such as normal:0.01",
            text);
  }
}

void set_trace_steps(Options& o, const std::string& text) {
  TraceSteps& steps = o.output.trace_steps;
  std::istringstream numbers(text);
  char colon = 0;
  numbers >> steps.first >> colon >> steps.last;
  require(!numbers.fail() && numbers.eof() && colon == ':' && steps.first >= 1 && steps.first <= steps.last,
          Exit::usage, "--trace-steps {}: give the first and the last step, from 1, such as 10:20", text);
}

bool is_no_doctor(const Options& o) { return !o.action.doctor; }

std::string conflict_of_resume(const Options& o) {
  const std::string& resume = o.checkpoint.resume;
  if (resume == "auto" && o.output.dir.empty()) return "auto needs --output-dir: the folder of the run, new or not";
  if (resume.empty() || resume == "auto" || o.network.init_from.empty()) return "";
  return fmt::format(
      "{} excludes --init-from: the checkpoint has the weights; only --resume auto may begin a run with others",
      resume);
}

OptionGroup task_options() {
  return {
      "Task",
      {{.name = "--model",
        .target = to([](Options & o) -> auto& { return o.network.model; }),
        .on_resume = OnResume::fixed("the weights are those of this network"),
        .help = "network: " + names_of_networks() + ", or a file FILE.toml that describes one"},
       {.name = "--init",
        .target = through<std::string>("default", set_init),
        .on_resume = Effect::process,
        .help = "initial weights: default (the network's own, or PyTorch's), normal:S for N(0, S^2) with zero biases, "
                "or glorot (Keras's)",
        .condition = {"excludes --init-from without --new-head",
                      [](const Options& o) { return o.network.init_from.empty() || o.network.new_head; }}},
       {.name = "--init-from",
        .target = to([](Options & o) -> auto& { return o.network.init_from; }),
        .on_resume = Effect::process,
        .help = "initial weights from a safetensors file with PyTorch's names, a checkpoint or a run's folder"},
       {.name = "--new-head",
        .target = to([](Options & o) -> auto& { return o.network.new_head; }),
        .on_resume = Effect::process,
        .help = "begin the last linear layer by --init, whatever the file has for it; all other weights come from the "
                "file",
        .condition = {"needs --init-from", [](const Options& o) { return !o.network.init_from.empty(); }}},
       {.name = "--freeze",
        .target = to([](Options & o) -> auto& { return o.network.freeze; }),
        .on_resume = OnResume::fixed("the optimizer has the state of the trained parameters only"),
        .help = "parameters that keep their values, by the beginnings of their names up to a dot, such as "
                "conv1,bn1,layer1; batch norms whose parameters are all frozen use their running statistics"}}};
}

OptionGroup checkpoint_options() {
  return {
      "Checkpoints",
      {{.name = "--save-every",
        .target = through<std::string>(
            "1epochs", [](Options& o, const std::string& text) { o.train.save_every = parse_save_every(text); }),
        .on_resume = Effect::nothing,
        .help = "time between checkpoints: 100steps, 1epochs, 10min, 30s, or never"},
       {.name = "--keep-last",
        .target = to([](Options & o) -> auto& { return o.checkpoint.keep_last; }),
        .on_resume = Effect::nothing,
        .help = "number of checkpoints to keep; 0: all",
        .check = CLI::Range(0, 1'000'000)},
       {.name = "--keep-best",
        .target = to([](Options & o) -> auto& { return o.train.keep_best; }),
        .on_resume = Effect::nothing,
        .help =
            "save after each evaluation with the best accuracy so far, of tokens with the lowest loss, and keep that "
            "checkpoint too",
        .condition = {"needs --eval-every above 0", evaluates}},
       {.name = "--resume",
        .target = to([](Options & o) -> auto& { return o.checkpoint.resume; }),
        .on_resume = Effect::process,
        .help = "continue from a run's folder, from a checkpoint in it, or with auto from --output-dir, which may "
                "be new; options that are not given have the run's own values",
        .conflict = conflict_of_resume},
       {.name = "--change",
        .target = to([](Options & o) -> auto& { return o.checkpoint.change; }),
        .on_resume = Effect::process,
        .help = "change options of the resumed run from here on, such as lr=0.01,epochs=20; they replace the same "
                "options on the command line and in the configuration file",
        .condition = {"needs --resume", [](const Options& o) { return !o.checkpoint.resume.empty(); }},
        .configurable = false}}};
}

OptionGroup output_options() {
  using Display = OutputConfig::ProgressDisplay;
  return {
      "Output",
      {{.name = "--output-dir",
        .target = to([](Options & o) -> auto& { return o.output.dir; }),
        .on_resume = Effect::process,
        .help = "folder for the results, refused if it holds a run unless --resume continues that; default: a new "
                "folder in runs/, named by the time"},
       {.name = "--print-freq",
        .target = to([](Options & o) -> auto& { return o.output.print_freq; }),
        .on_resume = Effect::nothing,
        .help = "steps between printed lines; 0: none",
        .check = CLI::NonNegativeNumber},
       {.name = "--progress",
        .target = one_of<Display>(
            {{"auto", Display::automatic}, {"bar", Display::bar}, {"lines", Display::lines}},
            [](Options & o) -> auto& { return o.output.progress; }),
        .on_resume = Effect::nothing,
        .help = "how to show progress; auto: a bar on a terminal, else lines; bar: also where a launcher hides the "
                "terminal"},
       {.name = "--trace",
        .target = to([](Options & o) -> auto& { return o.output.trace; }),
        .on_resume = Effect::process,
        .help =
            "file for a trace of all ranks on one clock: layers, buckets, loader threads, checkpoints; Perfetto and "
            "Chrome open it"},
       {.name = "--trace-steps",
        .target = through<std::string>("11:30", set_trace_steps),
        .on_resume = Effect::process,
        .help = "first and last step of the trace, from 1",
        .condition = {"needs --trace", [](const Options& o) { return !o.output.trace.empty(); }}},
       {.name = "--tensorboard",
        .target = to([](Options & o) -> auto& { return o.output.tensorboard; }),
        .on_resume = Effect::nothing,
        .help = "write event files for TensorBoard into the output folder"},
       {.name = "--metrics-port",
        .target = to([](Options & o) -> auto& { return o.output.metrics_port; }),
        .on_resume = Effect::process,
        .help = "port of the host of rank 0 with /metrics for Prometheus and /healthz, the state of all ranks; 0: none",
        .check = CLI::Range(0, 65535)},
       {.name = "--metrics-address",
        .target = to([](Options & o) -> auto& { return o.output.metrics_address; }),
        .on_resume = Effect::process,
        .help = "address of that port; 0.0.0.0: all networks of the host may read it",
        .check = numeric_address(),
        .condition = {"needs --metrics-port", [](const Options& o) { return o.output.metrics_port > 0; }}},
       {.name = "--plan",
        .target = to([](Options & o) -> auto& { return o.action.plan; }),
        .on_resume = Effect::process,
        .help = "print buckets, memory and predicted times, and stop",
        .condition = {"excludes --doctor", is_no_doctor},
        .configurable = false},
       {.name = "--layer-times",
        .target = to([](Options & o) -> auto& { return o.action.layer_times; }),
        .on_resume = Effect::process,
        .help = "print the time, GFLOP/s and bandwidth of each layer and pass beside those of the machine, and stop",
        .condition = {"excludes --plan, --print-order and --doctor",
                      [](const Options& o) { return !o.action.plan && !o.action.print_order && is_no_doctor(o); }},
        .configurable = false},
       {.name = "--doctor",
        .target = to([](Options & o) -> auto& { return o.action.doctor; }),
        .on_resume = Effect::process,
        .help = "check the machine under this launcher and with these options, print each problem with the command "
                "that fixes it, and stop; --step-timeout limits each check. Exit code 0, or that of the first fault: 2 "
                "options, 3 data, 4 output folder, 5 model, 7 GPUs, versions or cores, 8 number of ranks, 9 "
                "communication, or a check that hangs",
        .configurable = false},
       {.name = "--json",
        .target = to([](Options & o) -> auto& { return o.action.json; }),
        .on_resume = Effect::process,
        .help = "print the doctor's report as one JSON object",
        .condition = {"needs --doctor", [](const Options& o) { return o.action.doctor; }},
        .configurable = false},
       {.name = "--print-order",
        .target = to([](Options & o) -> auto& { return o.action.print_order; }),
        .on_resume = Effect::process,
        .help = "print the order of samples in this epoch, from 1, and stop",
        .check = CLI::PositiveNumber,
        .condition = {"excludes --doctor", is_no_doctor},
        .configurable = false},
       {.name = "--inject",
        .target = to([](Options & o) -> auto& { return o.inject; }),
        .on_resume = Effect::process,
        .help = "rehearse a fault, such as rank=1,step=17,kind=hang (kill, slow, nan, bitflip, enospc, exit); "
                "rank=all: on each rank",
        .configurable = false}}};
}

}  // namespace

const std::vector<OptionGroup>& option_table() {
  static const std::vector<OptionGroup> table{task_options(),       data_options(),          training_options(),
                                              optimizer_options(),  learning_rate_options(), machine_options(),
                                              checkpoint_options(), output_options()};
  return table;
}

void declare(CLI::App& app, Options& options, std::span<const BorrowedRow> rows) {
  app.option_defaults()->always_capture_default();
  for (const OptionGroup& group : option_table())
    for (const OptionRow& row : group.rows) {
      const auto borrowed = std::ranges::find(rows, std::string_view(row.name), &BorrowedRow::name);
      if (borrowed == rows.end()) continue;
      CLI::Option* const option = row.target(app, row.name, options);
      option->description(borrowed->help ? borrowed->help : row.text())->group(group.name)->check(row.check);
    }
}

void require_rows_fit(const CLI::App& app, const Options& o, std::span<const BorrowedRow> rows,
                      const NamedValues& kept) {
  const auto is_declared = [&](const OptionRow& row) {
    return rows.empty() || std::ranges::find(rows, std::string_view(row.name), &BorrowedRow::name) != rows.end();
  };
  for_each_row([&](const OptionRow& row) {
    require(!is_declared(row) || row.condition.met_by(o) || app.get_option(row.name)->count() == 0, Exit::usage,
            "{} {}", row.name, row.condition.sentence);
  });
  for_each_row([&](const OptionRow& row) {
    const std::string conflict = row.conflict && is_declared(row) ? row.conflict(o) : "";
    if (conflict.empty()) return;
    const OnResume& rule = row.on_resume;
    const bool is_kept = kept.contains(row.name);
    const char* const advice = !is_kept || rule.fixed_because   ? ""
                               : rule.effect == Effect::results ? ": change it too by --change"
                                                                : ": give it another value";
    fail(Exit::usage, "{} {}{}{}", row.name, conflict,
         is_kept ? fmt::format("; {} is as in the run so far", row.name) : "", advice);
  });
}

void declare(CLI::App& app, Options& options) {
  app.option_defaults()->always_capture_default();
  app.set_config("--config", "", "TOML file with any of these options; the command line wins");
  app.config_formatter(make_toml_reader());
  app.allow_config_extras(CLI::config_extras_mode::error);
  for (const OptionGroup& group : option_table())
    for (const OptionRow& row : group.rows) {
      CLI::Option* const option = row.target(app, row.name, options);
      option->description(row.text())->group(group.name)->configurable(row.configurable)->check(row.check);
    }
}

}  // namespace ddp
