#include "app/options.h"

#include "app/config_file.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <sstream>

namespace ddp {
namespace {

Init parse_init(const std::string& text) {
  if (text == "default") return {};
  const std::string prefix = "normal:";
  std::istringstream number(text.substr(0, prefix.size()) == prefix ? text.substr(prefix.size()) : "");
  double stddev = 0;
  number >> stddev;
  require(!number.fail() && number.eof() && stddev > 0 && std::isfinite(stddev), Exit::usage,
          "--init {}: give 'default', or 'normal:S' with a standard deviation S > 0, such as normal:0.01", text);
  return {Init::Kind::normal, stddev};
}

// Options whose value is parsed further.
struct Texts {
  std::string init = "default", allreduce = "auto";
};

void declare(CLI::App& app, Options& o, Texts& texts) {
  app.option_defaults()->always_capture_default();
  app.set_config("--config", "", "TOML file with any of these options; the command line wins");
  app.config_formatter(make_toml_reader());
  app.allow_config_extras(CLI::config_extras_mode::error);

  app.add_option("--model", o.model, "network: lenet")->group("Task");
  app.add_option("--dataset", o.dataset, "data set: fashion-mnist or mnist")->group("Task");
  app.add_option("--data-path", o.data_path, "folder with the four IDX files, gzipped or not")->group("Task");
  app.add_option("--train-samples", o.train_samples, "train on the first N samples only; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->group("Task");
  app.add_option("--init", texts.init, "initial weights: default (PyTorch's), or normal:S for N(0, S^2)")
      ->group("Task");
  app.add_option("--init-from", o.init_from, "initial weights from a safetensors file with PyTorch's names")
      ->group("Task");

  app.add_option("--batch-size", o.batch_size, "samples of a step over all ranks")
      ->check(CLI::PositiveNumber)
      ->group("Training");
  app.add_option("--epochs", o.epochs, "epochs")->check(CLI::PositiveNumber)->group("Training");
  app.add_option("--max-steps", o.max_steps, "stop after N steps; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->group("Training");
  app.add_option("--lr", o.lr, "learning rate, as used")->check(CLI::NonNegativeNumber)->group("Training");
  app.add_option("--seed", o.seed, "seed of initial weights and order")->group("Training");
  app.add_option("--eval-every", o.eval_every, "epochs between evaluations; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->group("Training");

  app.add_option("--device", o.device, "cpu, cuda or auto")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->group("Machine");
  app.add_option("--threads", o.threads, "computing threads of a rank; 0: its share of the cores")
      ->check(CLI::NonNegativeNumber)
      ->group("Machine");
  app.add_option("--rank-weights", o.rank_weights, "relative speed of each rank, such as 2,1")
      ->delimiter(',')
      ->default_str("")
      ->group("Machine");
  app.add_option("--allreduce", texts.allreduce, "auto: MPI's choice; ring: our segmented ring")
      ->check(CLI::IsMember({"auto", "ring"}))
      ->group("Machine");
  app.add_option("--precision", o.precision, "fp32, tf32 or bf16; auto: tf32 on a GPU, fp32 on a CPU")
      ->check(CLI::IsMember({"auto", "fp32", "tf32", "bf16"}))
      ->group("Machine");
  app.add_option("--transport", o.transport, "nccl or mpi; auto: nccl between GPUs, mpi between CPUs")
      ->check(CLI::IsMember({"auto", "nccl", "mpi"}))
      ->group("Machine");
  app.add_option("--nccl-algo", o.nccl_algo, "auto: NCCL's choice; ring")
      ->check(CLI::IsMember({"auto", "ring"}))
      ->group("Machine");
  app.add_flag("--share-gpu", o.share_gpu, "several ranks may have one GPU: slow, for tests")->group("Machine");
  app.add_flag("--deterministic", o.deterministic, "the same bits on every run")->group("Machine");
  app.add_flag("--no-graph", o.no_graph, "issue each step's work anew in place of replaying a CUDA graph")
      ->group("Machine");
  app.add_option("--device-data-mb", o.device_data_mb, "a data set larger than this, MiB, streams to the GPU")
      ->check(CLI::NonNegativeNumber)
      ->group("Machine");
  app.add_option("--step-timeout", o.step_timeout,
                 "seconds after which a step that has not ended ends the job; 0: never")
      ->check(CLI::NonNegativeNumber)
      ->group("Machine");
  app.add_option("--bucket-cap-mb", o.bucket_cap_mb, "largest bucket, MiB")
      ->check(CLI::PositiveNumber)
      ->group("Machine");
  app.add_option("--first-bucket-mb", o.first_bucket_mb, "largest first bucket, MiB")
      ->check(CLI::PositiveNumber)
      ->group("Machine");

  app.add_option("--output-dir", o.output_dir, "folder for the results; default: a fresh runs/<time>")->group("Output");
  app.add_option("--print-freq", o.print_freq, "steps between printed lines; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->group("Output");
  app.add_option("--progress", o.progress, "bar, lines or auto")
      ->check(CLI::IsMember({"auto", "bar", "lines"}))
      ->group("Output");
  app.add_flag("--plan", o.plan, "print buckets, memory and predicted times, and stop")
      ->configurable(false)
      ->group("Output");
  app.add_option("--print-order", o.print_order, "print the order of samples in this epoch, from 1, and stop")
      ->check(CLI::PositiveNumber)
      ->default_str("")
      ->configurable(false)
      ->group("Output");
}

// What was given or is the default, as a file that --config reads; empty values and actions are left out.
std::string effective_config(const CLI::App& app) {
  std::string text = "# The effective configuration of this run; use it again with --config.\n";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_configurable() || option->get_name() == "--help") continue;
    std::string value = option->count() == 0 ? option->get_default_str() : "";
    for (const std::string& part : option->results()) value += (value.empty() ? "" : ",") + part;
    if (!value.empty()) text += toml_entry(option->get_single_name(), value, option->get_type_name() == "TEXT");
  }
  return text;
}

}  // namespace

Options parse_options(int argc, char** argv, std::optional<std::string>& answer) {
  Options o;
  Texts texts;
  CLI::App app("Data-parallel training over MPI: mpirun -np N ./ddp_train [options]", "ddp_train");
  app.set_version_flag("--version", std::string("ddp_train ") + DDP_VERSION);
  declare(app, o, texts);
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
  o.init = parse_init(texts.init);
  o.allreduce = texts.allreduce == "ring" ? Allreduce::ring : Allreduce::automatic;
  require(o.init_from.empty() || texts.init == "default", Exit::usage, "--init and --init-from exclude each other");
  require(std::isfinite(o.lr), Exit::usage, "--lr must be finite");
  require(std::isfinite(o.bucket_cap_mb) && std::isfinite(o.first_bucket_mb), Exit::usage,
          "--bucket-cap-mb and --first-bucket-mb must be finite");
  require(o.step_timeout <= 1e9, Exit::usage, "--step-timeout must be at most 1e9 seconds");
  require(o.device_data_mb <= int64_t{1} << 40, Exit::usage, "--device-data-mb must be at most 1099511627776");
  require(o.epochs <= 1'000'000'000, Exit::usage, "--epochs must be at most 1000000000");
  for (const double weight : o.rank_weights)
    require(weight > 0 && weight <= 1e9, Exit::usage, "--rank-weights must be numbers above 0, at most 1e9");
  o.effective_config = effective_config(app);
  return o;
}

}  // namespace ddp
