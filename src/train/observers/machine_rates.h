// What this rank reaches while all ranks compute: the rate of a matrix product, and the bandwidth of a copy.
#pragma once

#include "train/step/replica.h"

#include <cstdint>

namespace ddp {

struct MachineRates {
  double flops_per_second = 0;  // two for each multiply-add; 0: the device's clock stood still
  int64_t side = 0;             // of the square matrices that reached it
  double bytes_per_second = 0;  // bytes read and bytes written; 0 as above
  int64_t copied = 0;           // bytes read
};

// Medians of a few runs by the device's clock. The product is a linear layer of the replica's ops, in their types: the
// fastest of sizes that double until one takes 5 ms. The copy is the largest, of at most 64 MiB and the first that
// takes 20 ms. Takes about a second at most, and memory for the tensors. Collective, between steps.
MachineRates measure_machine_rates(Replica& replica);

}  // namespace ddp
