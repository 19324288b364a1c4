// Everything a user can ask for. Names follow torchvision's train.py, except that --batch-size is global.
#pragma once

#include "comm/mpi/session.h"
#include "core/dtype.h"
#include "core/error.h"
#include "nn/init.h"
#include "ops/optimizer.h"
#include "train/save_schedule.h"
#include "train/schedule.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

struct Options {
  // Task
  std::string model = "lenet";
  std::string dataset = "fashion-mnist";
  std::string data_path;      // empty: where the dataset's package puts it
  int64_t train_samples = 0;  // 0: all
  Init init;
  std::string init_from;

  // Training
  int64_t batch_size = 256;  // of a step over all ranks, in all its micro-batches
  int64_t accumulate = 1;    // micro-batches of a step
  int64_t epochs = 10;
  int64_t max_steps = 0;  // 0: no limit
  uint64_t seed = 0;
  int64_t eval_every = 1;  // epochs
  double label_smoothing = 0;
  double clip_grad_norm = 0;   // 0: none
  int64_t skip_bad_steps = 0;  // so many in a row may have NaN or infinity and are left out
  bool sync_bn = false;
  std::optional<bool> recompute_bn;  // statistics anew from training samples before an evaluation, in place of running
                                     // ones; not given: yes, where there are batch norms

  // Optimizer and learning rate
  OptimizerDesc optimizer;
  bool no_decay_bias_norm = false;
  double lr = 0.2;  // as given
  RateScale lr_scale = RateScale::none;
  int64_t lr_base_batch = 256;
  ScheduleDesc schedule;  // its lr is the one used: after lr_scale

  // Machine
  std::string device = "auto";
  int threads = 0;                   // of a rank; 0: its share of the cores it may use
  std::vector<double> rank_weights;  // empty: equal
  Allreduce allreduce = Allreduce::automatic;
  std::string precision = "auto";
  bool direct_conv = false;  // no Winograd
  std::string transport = "auto";
  std::string nccl_algo = "auto";
  DType grad_dtype = DType::f32;  // in which gradients travel
  int zero = 0;                   // 1: optimizer state in parts
  bool share_gpu = false;
  bool deterministic = false;
  bool no_graph = false;
  int64_t device_data_mb = 4096;
  std::optional<double> step_timeout;  // seconds; 0: none; not given: it follows the time that steps take
  int64_t check_every = 1000;          // steps between comparisons of replicas; 0: at the end of epochs only
  double bucket_cap_mb = 8;
  double first_bucket_mb = 1;

  // Checkpoints
  SaveEvery save_every{.epochs = 1};
  int keep_last = 3;  // 0: all
  bool keep_best = false;
  std::string resume;  // "auto", a path, or empty

  // Output
  std::string output_dir;   // empty: runs/<time>
  int64_t print_freq = 50;  // steps
  std::string progress = "auto";
  bool plan = false;
  bool doctor = false;
  bool json = false;        // its report
  int64_t print_order = 0;  // an epoch, from 1; 0: not asked for

  std::string inject;  // a fault on purpose

  std::string effective_config;              // as TOML that --config reads
  std::map<std::string, std::string> named;  // the same by name of the option, without dashes
};

// What the command line and the configuration file say; the command line wins. A request for help or the version is
// answered with its text in `answer`. Throws Error(Exit::usage).
Options parse_options(int argc, const char* const* argv, std::optional<std::string>& answer);

}  // namespace ddp
