// A profile that is made up: three parameters of 1 MiB, each a bucket, and a pass of 10 ms in a step of 12 ms.
#pragma once

#include "ddp/run_profile.h"

namespace ddp::testing {

inline RunProfile sample_profile() {
  return {.network = "net",
          .device = "cpu",
          .precision = "fp32",
          .batch = 4,
          .shard = 4,
          .parameters = {1 << 18, 1 << 18, 1 << 18},
          .costs = {.ready_ms = {2, 6, 9}, .compute_ms = 10},
          .compute_ms = 12,
          .spread = {{0, 1}, {1, 1}},
          .memory = {.weights = 100, .gradients = 100, .optimizer = 200, .activations = 400}};
}

}  // namespace ddp::testing
