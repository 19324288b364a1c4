#include "app/declare_options.h"

#include "app/config_file.h"
#include "nn/models.h"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

namespace ddp {
namespace {

constexpr double kLargest = 1e38;  // finite as f32 too

// CLI11's own checks let NaN pass.
CLI::Validator number(double from, double to, bool open = false) {
  const std::string range = open ? fmt::format("above {:g}", from) : fmt::format("from {:g}", from);
  const auto check = [=](const std::string& text) {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && (open ? value > from : value >= from) && value <= to;
    return good ? std::string() : fmt::format("{} is not a number {}, at most {:g}", text, range, to);
  };
  return CLI::Validator(check, "");
}

CLI::Validator above_0(double to = kLargest) { return number(0, to, true); }

class Group {
 public:
  Group(CLI::App& app, const char* name) : app_(app), name_(name) {}

  template <class T>
  CLI::Option* option(const char* option, T& value, const std::string& help) {
    return app_.add_option(option, value, help)->group(name_);
  }
  CLI::Option* flag(const char* option, bool& value, const char* help) {
    return app_.add_flag(option, value, help)->group(name_);
  }
  template <class T>
  CLI::Option* choice(const char* option, T& value, std::vector<T> choices, const char* help) {
    return this->option(option, value, help)->check(CLI::IsMember(std::move(choices)));
  }
  void numbers(const char* option, std::vector<double>& values, const CLI::Validator& each, const char* help) {
    this->option(option, values, help)->check(each)->delimiter(',')->default_str("");
  }

 private:
  CLI::App& app_;
  const char* name_;
};

void declare_task(Group group, Options& o, OptionTexts& texts) {
  std::vector<const char*> names;
  for (const NamedModel& model : models()) names.push_back(model.name);
  group.option("--model", o.model, fmt::format("network: {}", fmt::join(names, ", ")));
  group.option("--dataset", o.dataset, "data set: fashion-mnist or mnist");
  group.option("--data-path", o.data_path, "folder with the four IDX files, gzipped or not");
  group.option("--train-samples", o.train_samples, "train on the first N samples only; 0: all")
      ->check(CLI::NonNegativeNumber);
  group.option("--init", texts.init,
               "initial weights: default (PyTorch's), normal:S for N(0, S^2), or glorot (Keras's)");
  group.option("--init-from", o.init_from, "initial weights from a safetensors file with PyTorch's names");
}

void declare_training(Group group, Options& o, OptionTexts& texts) {
  constexpr int64_t kMost = int64_t{1} << 40;
  group.option("--batch-size", o.batch_size, "samples of a step over all ranks")->check(CLI::Range(int64_t{1}, kMost));
  group
      .option("--accumulate", o.accumulate,
              "micro-batches in which a step computes its --batch-size samples one after another")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  group.option("--epochs", o.epochs, "epochs")->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  group.option("--max-steps", o.max_steps, "stop after N steps; 0: no limit")->check(CLI::NonNegativeNumber);
  group.option("--seed", o.seed, "seed of initial weights, order and dropout");
  group.option("--eval-every", o.eval_every, "epochs between evaluations; 0: none")->check(CLI::NonNegativeNumber);
  group.option("--label-smoothing", o.label_smoothing, "share of the target spread over all classes")
      ->check(number(0, 1));
  group.option("--clip-grad-norm", o.clip_grad_norm, "largest norm of all gradients together; 0: not clipped")
      ->check(number(0, kLargest));
  group
      .option("--skip-bad-steps", o.skip_bad_steps,
              "leave out up to N steps in a row with NaN or infinity in a gradient; 0: the first ends the run")
      ->check(CLI::NonNegativeNumber);
  group.flag("--sync-bn", o.sync_bn, "batch-norm statistics over all ranks");
  group
      .choice("--bn-stats", texts.bn_stats, {"running", "recompute"},
              "for evaluation: running averages, or recomputed from training samples (the default)")
      ->default_str("");
}

void declare_optimizer(Group group, Options& o, OptionTexts& texts) {
  group.choice("--optimizer", texts.optimizer, {"sgd", "adam", "adamw", "lars"}, "rule of the update");
  group.option("--momentum", o.optimizer.momentum, "of sgd and lars")->check(number(0, 1));
  group.flag("--nesterov", o.optimizer.nesterov, "Nesterov's momentum, of sgd");
  group.option("--weight-decay", o.optimizer.weight_decay, "weight decay; decoupled with adamw")
      ->check(number(0, kLargest));
  group.choice("--decay", texts.decay, {"l2", "decoupled"}, "weight decay of sgd: in the gradient, or apart from it");
  group.flag("--no-decay-bias-norm", o.no_decay_bias_norm,
             "biases and norms do not decay, nor does lars adapt their rate");
  group.option("--adam-beta1", o.optimizer.beta1, "of adam and adamw")->check(number(0, 0.999999));
  group.option("--adam-beta2", o.optimizer.beta2, "of adam and adamw")->check(number(0, 0.999999));
  group.option("--adam-epsilon", o.optimizer.epsilon, "of adam and adamw")->check(number(0, 1));
  group.option("--lars-trust", o.optimizer.trust, "trust coefficient of lars")->check(above_0());
}

void declare_schedule(Group group, Options& o, OptionTexts& texts) {
  ScheduleDesc& s = o.schedule;
  group.option("--lr", o.lr, "learning rate, as used unless --lr-scale")->check(number(0, kLargest));
  group.choice("--lr-scale", texts.lr_scale, {"none", "linear", "sqrt"},
               "multiply --lr by --batch-size / --lr-base-batch, or by its root");
  group.option("--lr-base-batch", o.lr_base_batch, "global batch that --lr is for")->check(CLI::PositiveNumber);
  group.choice("--lr-scheduler", texts.lr_scheduler,
               {"constant", "step", "steplr", "multistep", "multisteplr", "cosine", "cosineannealinglr", "linear"},
               "how the rate goes on after the warm-up");
  group.option("--lr-step-size", s.step_epochs, "epochs between falls of step")->check(above_0());
  group.numbers("--lr-milestones", s.milestones, number(0, kLargest),
                "epochs of the falls of multistep, counted from the end of the warm-up, such as 30,60");
  group.option("--lr-gamma", s.gamma, "factor of each fall of step and multistep")->check(above_0());
  group.option("--lr-min", s.min_lr, "rate at the end of cosine and linear")->check(number(0, kLargest));
  group.option("--lr-warmup-epochs", s.warm_up_epochs, "epochs of warm-up, not necessarily whole ones")
      ->check(number(0, kLargest));
  group.choice("--lr-warmup-method", texts.lr_warmup_method, {"linear", "constant"}, "how the warm-up goes");
  group.option("--lr-warmup-decay", s.warm_up_factor, "factor of the rate when the warm-up begins")
      ->check(number(0, 1));
}

void declare_machine(Group group, Options& o, OptionTexts& texts) {
  group.choice("--device", o.device, {"auto", "cpu", "cuda"}, "where to compute");
  group.option("--threads", o.threads, "computing threads of a rank; 0: its share of the cores")
      ->check(CLI::NonNegativeNumber);
  group.numbers("--rank-weights", o.rank_weights, above_0(1e9), "relative speed of each rank, such as 2,1");
  group.choice("--allreduce", texts.allreduce, {"auto", "ring"}, "auto: MPI's choice; ring: our segmented ring");
  group.choice("--precision", o.precision, {"auto", "fp32", "tf32", "bf16"}, "auto: tf32 on a GPU, fp32 on a CPU");
  group.choice("--conv", texts.conv, {"auto", "direct"},
               "on a CPU: auto: Winograd's algorithm where it is faster; direct: never");
  group.choice("--transport", o.transport, {"auto", "nccl", "mpi"}, "auto: nccl between GPUs, mpi between CPUs");
  group.choice("--nccl-algo", o.nccl_algo, {"auto", "ring"}, "auto: NCCL's choice");
  group.choice("--grad-dtype", texts.grad_dtype, {"fp32", "bf16"}, "type in which gradients travel between ranks");
  group.choice("--zero", o.zero, {0, 1}, "1: each rank keeps a part of the optimizer's state only");
  group.flag("--share-gpu", o.share_gpu, "several ranks may have one GPU: slow, for tests");
  group.flag("--deterministic", o.deterministic, "the same bits on every run");
  group.flag("--no-graph", o.no_graph, "issue each step's work anew in place of replaying a CUDA graph");
  group.option("--device-data-mb", o.device_data_mb, "a data set larger than this, MiB, streams to the GPU")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  group.option("--step-timeout", texts.step_timeout,
               "seconds after which a step that has not ended ends the job; auto: it follows the time that steps take; "
               "0: never");
  group.option("--check-every", o.check_every, "steps between comparisons of all ranks' weights; 0: only after epochs")
      ->check(CLI::NonNegativeNumber);
  group.option("--bucket-cap-mb", o.bucket_cap_mb, "largest bucket, MiB")->check(above_0(1e9));
  group.option("--first-bucket-mb", o.first_bucket_mb, "largest first bucket, MiB")->check(above_0(1e9));
}

void declare_checkpoints(Group group, Options& o, OptionTexts& texts) {
  group.option("--save-every", texts.save_every, "how often to save: 100steps, 1epochs, 10min, 30s, or never");
  group.option("--keep-last", o.keep_last, "checkpoints that are kept; 0: all")->check(CLI::Range(0, 1'000'000));
  group.flag("--keep-best", o.keep_best, "save after every evaluation that is the best so far, and keep that too");
  group.option(
      "--resume", o.resume,
      "go on from a checkpoint: a run's folder, a checkpoint in it, or auto for --output-dir, which may be new");
}

void declare_output(Group group, Options& o) {
  group.option("--output-dir", o.output_dir, "folder for the results; default: a fresh runs/<time>");
  group.option("--print-freq", o.print_freq, "steps between printed lines; 0: none")->check(CLI::NonNegativeNumber);
  group.choice("--progress", o.progress, {"auto", "bar", "lines"}, "how progress is shown");
  group.flag("--plan", o.plan, "print buckets, memory and predicted times, and stop")->configurable(false);
  group
      .flag("--doctor", o.doctor,
            "look at the machine under this launcher and with these options, say what is wrong and which line mends "
            "it, and stop; --step-timeout is the limit of each check. Exit code 0, or that of the first fault: 2 "
            "options, 3 data, 4 output folder, 5 model, 7 GPUs, versions or cores, 8 number of ranks, 9 communication, "
            "or a check that hangs")
      ->configurable(false);
  group.flag("--json", o.json, "--doctor's report as one JSON object")->configurable(false);
  group.option("--print-order", o.print_order, "print the order of samples in this epoch, from 1, and stop")
      ->check(CLI::PositiveNumber)
      ->default_str("")
      ->configurable(false);
  group
      .option("--inject", o.inject,
              "to test: a fault on purpose, such as rank=1,step=17,kind=hang (kill, slow, nan, bitflip, enospc, exit)")
      ->configurable(false);
}

}  // namespace

void declare_options(CLI::App& app, Options& o, OptionTexts& texts) {
  app.option_defaults()->always_capture_default();
  app.set_config("--config", "", "TOML file with any of these options; the command line wins");
  app.config_formatter(make_toml_reader());
  app.allow_config_extras(CLI::config_extras_mode::error);
  declare_task({app, "Task"}, o, texts);
  declare_training({app, "Training"}, o, texts);
  declare_optimizer({app, "Optimizer"}, o, texts);
  declare_schedule({app, "Learning rate"}, o, texts);
  declare_machine({app, "Machine"}, o, texts);
  declare_checkpoints({app, "Checkpoints"}, o, texts);
  declare_output({app, "Output"}, o);
}

}  // namespace ddp
