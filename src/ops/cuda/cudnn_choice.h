// Which cuDNN engines a pass may use, and the encoding of a choice for communication. This code needs no GPU.
#pragma once

#include "ops/precision.h"

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace ddp::cudnn {

struct Notes {
  std::vector<cudnnBackendNumericalNote_t> numerical;
  std::vector<cudnnBackendBehaviorNote_t> behavior;

  bool has(cudnnBackendNumericalNote_t note) const;
  bool has(cudnnBackendBehaviorNote_t note) const;
};

struct Rules {
  Precision precision = Precision::tf32;
  bool deterministic = false;
  int64_t workspace = int64_t{64} << 20;  // at most, in bytes
};

// Whether an engine with these notes is allowed. Engines whose sums are not f32 never are. `compiling` allows engines
// that compile kernels at their first use: this takes long, and errors show only then.
bool admissible(const Notes& notes, const Rules& rules, bool compiling);

struct Knob {
  int64_t type = 0, value = 0;
  friend bool operator==(const Knob&, const Knob&) = default;
};

// An engine and its settings, the same for all batch sizes; or no engine.
struct Choice {
  int64_t engine = -1;
  std::vector<Knob> knobs;

  bool none() const { return engine < 0; }
  friend bool operator==(const Choice&, const Choice&) = default;
};

// More settings than the words hold: an engine of a newer cuDNN.
constexpr int64_t kMostKnobs = CUDNN_KNOB_TYPE_COUNTS;
using ChoiceWords = std::array<int64_t, 2 + 2 * kMostKnobs>;
ChoiceWords to_words(const Choice& choice);
Choice from_words(std::span<const int64_t> words);

// An engine's number, then the type and the value of each setting. No engine from a list that is none, or too long.
std::vector<int64_t> to_list(const Choice& choice);
Choice from_list(std::span<const int64_t> list);

}  // namespace ddp::cudnn
