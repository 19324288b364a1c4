// What `saves` writes, which the test expects.
#pragma once

#include "tests/checkpoint/fixture.h"

#include <array>

namespace ddp {

inline constexpr const char* kRun = "runs/one";
inline constexpr const char* kExport = "model.safetensors";
inline constexpr std::array<const char*, 2> kNewFiles = {"labels.npy", "images.npy"};
inline constexpr const char* kNewContent = "some bytes";

// `generation` numbers the saves from 1: two may have the same step. It is in all tensors and in the count of samples.
inline Snapshot saved_snapshot(int64_t step, int64_t generation) {
  Snapshot snapshot = few_weights().snapshot(generation);
  snapshot.run.step = step;
  return snapshot;
}
inline int64_t generation_of(const RunState& state) { return state.samples / 256; }

}  // namespace ddp
