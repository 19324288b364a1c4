// What the options mean for each part of a run. All throw Error(Exit::usage) where they do not go with its size, or
// with the data.
#pragma once

#include "app/options.h"
#include "data/dataset.h"
#include "nn/network.h"
#include "train/diagnosis.h"
#include "train/fault_injection.h"
#include "train/replica.h"
#include "train/trainer.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace ddp {

Datasets load_data(const Options& options);
uint64_t fingerprint(const Dataset& data);  // of its size, its shape, all labels, and some of its images
Network make_network(const Options& options, const Dataset& data);
std::vector<double> weights_of_ranks(const Options& options, int world);

// `norms`: whether the network has batch norms.
Samplers make_samplers(const Options& options, const Datasets& data, bool batch_norms, int rank,
                       const std::vector<double>& weights);
ReplicaConfig replica_config(const Options& options, const Samplers& samplers);
TrainConfig train_config(const Options& options);  // where it begins is not in the options
WatchdogLimits limits_of(const Options& options, int rank);
std::optional<FaultInjection> injection_of(const Options& options, int world);
// `done` steps of `total` were done before this run.
void require_it_happens(const FaultInjection& injection, const Options& options, int64_t done, int64_t total);

}  // namespace ddp
