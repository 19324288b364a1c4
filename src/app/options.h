// Everything a user can ask for. Names follow torchvision's train.py, except that --batch-size is global.
#pragma once

#include "comm/mpi/session.h"
#include "core/error.h"
#include "nn/init.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

struct Options {
  std::string model = "lenet";
  std::string dataset = "fashion-mnist";
  std::string data_path;      // empty: where the dataset's package puts it
  int64_t train_samples = 0;  // 0: all
  std::string device = "auto";
  int threads = 0;  // of a rank; 0: its share of the cores it may use
  int64_t batch_size = 256;
  int64_t epochs = 10;
  int64_t max_steps = 0;  // 0: no limit
  double lr = 0.2;
  uint64_t seed = 0;
  Init init;
  std::string init_from;
  std::vector<double> rank_weights;  // empty: equal
  Allreduce allreduce = Allreduce::automatic;
  std::string precision = "auto";
  std::string transport = "auto";
  std::string nccl_algo = "auto";
  bool share_gpu = false;
  bool deterministic = false;
  bool no_graph = false;
  int64_t device_data_mb = 4096;
  double step_timeout = 300;  // seconds; 0: none
  double bucket_cap_mb = 8;
  double first_bucket_mb = 1;
  std::string output_dir;   // empty: runs/<time>
  int64_t eval_every = 1;   // epochs
  int64_t print_freq = 50;  // steps
  std::string progress = "auto";
  bool plan = false;
  int64_t print_order = 0;  // an epoch, from 1; 0: not asked for

  std::string effective_config;  // as TOML that --config reads
};

// What the command line and the configuration file say; the command line wins. A request for help or the version is
// answered with its text in `answer`. Throws Error(Exit::usage).
Options parse_options(int argc, char** argv, std::optional<std::string>& answer);

}  // namespace ddp
