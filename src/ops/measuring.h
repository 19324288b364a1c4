// Algorithms that a rank chooses by their times.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// Replaces the values on all ranks by those of rank 0. Collective: all ranks make the same calls with the same counts.
using AgreeFn = std::function<void(std::span<int64_t>)>;

// The algorithms that were measured for a pass of a convolution or of attention, in the order of their times: cuDNN's
// engines, once for each of their settings, or the algorithms of ops/cpu/conv_algorithm.h. None: no engine computes
// this pass of attention, and our kernel does.
struct MeasuredPass {
  struct Algorithm {
    int64_t number = 0;
    double microseconds = 0;
    bool cold = false;  // the only run was the first one, which touches memory
  };
  std::string name;
  std::vector<Algorithm> algorithms;
  std::vector<int64_t> fastest = {};  // its number; for an engine then the type and the value of each setting
};

struct Measuring {
  // No pass is measured later than this after the first one: the others get the default. 0: none is measured.
  double seconds = 1e9;
  AgreeFn agree = {};                                      // null: this rank chooses its own algorithms
  std::function<bool()> decided = {};                      // whether `agree` has the next one already; null: it has not
  std::function<void(const MeasuredPass&)> measured = {};  // told of each measured pass; null: nobody is
  std::map<std::string, std::vector<int64_t>> known = {};  // MeasuredPass::fastest by name: these are not measured
};

}  // namespace ddp
