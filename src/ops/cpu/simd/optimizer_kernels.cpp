// This file is compiled without fused multiply-add, so all sets give the same bits. This costs no time, because memory
// bandwidth limits these loops.
#include "ops/cpu/simd/tables.h"

namespace ddp::DDP_ISA {
namespace {

void sgd(const SgdRule& given, float* w, const float* g, float decay, long count) {
  const SgdRule rule = given;
#pragma omp simd
  for (long i = 0; i < count; ++i) rule(w[i], g[i], decay);
}

void sgd_momentum(const SgdRule& given, float* w, const float* g, float* m, float decay, long count) {
  const SgdRule rule = given;
#pragma omp simd
  for (long i = 0; i < count; ++i) rule(w[i], g[i], m[i], decay);
}

void adam(const AdamRule& given, float* w, const float* g, float* m, float* v, float decay, long count) {
  const AdamRule rule = given;
#pragma omp simd
  for (long i = 0; i < count; ++i) rule(w[i], g[i], m[i], v[i], decay);
}

void lars(const LarsRule& given, float* w, const float* g, float* m, float decay, float rate_factor, long count) {
  const LarsRule rule = given;
#pragma omp simd
  for (long i = 0; i < count; ++i) rule(w[i], g[i], m[i], decay, rate_factor);
}

}  // namespace

const OptimizerKernels kOptimizer = {sgd, sgd_momentum, adam, lars};

}  // namespace ddp::DDP_ISA
