// All options of a run, in the configs of the classes that use them. option_table.h has a row for each option. The
// names of options follow torchvision's train.py, except that --batch-size is global.
#pragma once

#include "app/inputs/data_config.h"
#include "app/machine/device_config.h"
#include "app/run/samplers.h"
#include "nn/init.h"
#include "nn/model_file.h"
#include "telemetry/trace.h"
#include "train/step/replica.h"
#include "train/trainer.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace ddp {

struct NetworkConfig {
  std::string model = "lenet";  // of --model: a built-in network, or a file that ends in .toml
  ModelFile source = {};        // what `model` is, from share_model() on; without a name before
  Init init = {};
  std::string init_from = {};             // safetensors file with the initial weights; empty: `init`
  bool new_head = false;                  // the last linear layer begins with `init`, not with the file
  std::string freeze = {};                // prefixes of the names of frozen parameters, with commas between
  std::optional<bool> recompute_bn = {};  // recompute the statistics before evaluations; none: if there are batch norms
};

struct RateScaling {
  RateScale kind = RateScale::none;
  int64_t base_batch = 256;  // global batch size for which --lr is right
};

struct CheckpointConfig {
  int keep_last = 3;        // number of checkpoints to keep; 0: all
  std::string resume = {};  // "auto", a path, or empty
  std::string change = {};  // options to change on resume, such as "lr=0.01,epochs=20"
};

struct OutputConfig {
  enum class ProgressDisplay : uint8_t { automatic, bar, lines };
  std::string dir = {};     // empty: runs/<time>
  int64_t print_freq = 50;  // steps; 0: none
  ProgressDisplay progress = ProgressDisplay::automatic;
  std::string trace = {};  // file; empty: no trace
  TraceSteps trace_steps;
  bool tensorboard = false;   // writes event files too
  uint16_t metrics_port = 0;  // of rank 0's metrics; 0: not shown
  std::string metrics_address = "127.0.0.1";
};

// Actions that replace a training run.
struct ActionConfig {
  bool plan = false;
  bool layer_times = false;
  bool doctor = false;
  bool json = false;                        // prints the doctor's report as JSON
  std::optional<int64_t> print_order = {};  // epoch, from 1
};

using NamedValues = std::map<std::string, std::string>;  // of options as text, such as "--lr" -> "0.2"

struct Options {
  DataConfig data;
  NetworkConfig network;
  BatchConfig batch;
  uint64_t seed = 0;
  std::string label_weights = {};  // "balanced", a CSV file, or empty: none
  RateScaling lr_scaling;
  ReplicaConfig replica;                                 // without batch sizes, bucket sizes, class weights and seed
  std::optional<double> bucket_cap_mb, first_bucket_mb;  // MiB; none: BucketCaps, and if both are none by measurement
  ParameterGroup head;                                   // of --head-lr, without its match
  // Without the state at the start of the run.
  TrainConfig train{.check_every = 1000, .schedule = {}, .step = {}, .save_every = {.epochs = 1}};
  DeviceConfig device;
  TransportConfig transport;
  std::optional<double> step_timeout;  // seconds; 0: no limit; none: automatic
  CheckpointConfig checkpoint;
  OutputConfig output;
  ActionConfig action;
  std::string inject;  // fault to inject; empty: none

  std::string effective_config;  // as TOML that --config reads
  NamedValues named;             // the same values
  NamedValues given;             // those of the command line and of the file of --config
};

// Parses the command line and the file of --config; the command line wins. A request for help or the version sets
// `answer` to its text. Throws Error(Exit::usage).
Options parse_options(int argc, const char* const* argv, std::optional<std::string>& answer);

// The options of a training on the command line of `command`, such as "show". Throws Error(Exit::usage), also for an
// option of another action, such as --plan, and for --resume.
Options parse_training(std::span<const std::string> arguments, const char* command);

// The options with the values `given`, then `kept`, and the defaults of all others. A kept value has no effect where
// this program has no such option, or where the condition of its row is not met. Throws Error(Exit::usage).
Options options_of(const NamedValues& given, const NamedValues& kept);

}  // namespace ddp
