// Which samples a rank sees in training, in an evaluation, and before one for the statistics of batch norms.
#pragma once

#include "app/options.h"
#include "data/dataset.h"
#include "train/trainer.h"

#include <vector>

namespace ddp {

// --rank-weights, or 1 for each rank. Throws Error(Exit::usage) where there are not as many weights as ranks.
std::vector<double> weights_of_ranks(const Options& options, int world);

// The samplers of this rank. `norms`: whether the network has batch norms.
Samplers make_samplers(const Options& options, const Datasets& data, bool batch_norms, int rank,
                       const std::vector<double>& weights);

}  // namespace ddp
