// The times of layers as tables in Markdown.
#pragma once

#include "train/observers/layer_times.h"
#include "train/observers/machine_rates.h"

#include <string>

namespace ddp {

// A table of the layers and one of their kinds, which the sum of all ends. Each pass has its ms, its GFLOP/s, the share
// of the peak, and the least bytes over its time as a share of the bandwidth of a copy; `rates` are of the same rank. A
// cell is empty where there is no such pass, no FLOP, or where a clock stood still.
std::string layer_times_text(const LayerTimes& times, const MachineRates& rates);

}  // namespace ddp
