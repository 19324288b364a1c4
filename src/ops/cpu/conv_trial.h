// Times of the algorithms of a convolution, which run in turns.
#pragma once

#include "ops/cpu/factor_times.h"
#include "ops/measuring.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddp {

class ConvOperands;

class ConvTrial {
 public:
  // `factors`: only these are measured; none: both. Algorithms have the output format of the default, and slices where
  // it has some: the model was planned for both.
  ConvTrial(const Workers& workers, DnnlConfig config, const Conv2dDesc& desc, int64_t n, const FasterFactors& factors);
  ~ConvTrial();
  ConvTrial(const ConvTrial&) = delete;
  ConvTrial& operator=(const ConvTrial&) = delete;

  // The fastest algorithm of a pass (0: forward, 1: weight gradient, 2: input gradient), or the default if that is
  // nearly as fast. A single one is not measured: without others it has the number 0.
  MeasuredPass measure(const std::string& name, int pass);

 private:
  struct Candidate {
    ConvAlgorithm algorithm;
    std::unique_ptr<Conv2d> conv;
    double seconds = 0;
    bool cold = true;  // only one run
  };
  static Candidate* fastest(const std::vector<Candidate*>& tried);
  std::vector<Candidate*> candidates_of(int pass);

  FasterFactors factors_;
  std::vector<Candidate> candidates_;
  std::unique_ptr<ConvOperands> operands_;
};

}  // namespace ddp
