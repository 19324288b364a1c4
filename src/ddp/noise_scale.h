// The gradient noise scale: the batch size, in samples, at which the noise of a gradient is as large as the gradient.
// Below it, twice the batch needs nearly half as many steps; far above it, hardly fewer. It is the "simple" noise scale
//   tr(S) / |G|^2
// of McCandlish, Kaplan and Amodei (2018), "An Empirical Model of Large-Batch Training", with G the true gradient and S
// the covariance of the gradients of single samples.
#pragma once

namespace ddp {

// The expected values of the measured squares, with T = tr(S) and B the samples of a step:
//   squares of the whole gradient:   |G|^2 + T / B
//   squares of its parts:            share * |G|^2 + noise * T / B
// The parts are those of the ranks, before their sum: with b_r samples of rank r, share = sum of (b_r / B)^2, noise
// = 1. Or one part of b samples: share = (b / B)^2, noise = b / B.
struct GradientSquares {
  double parts = 0, whole = 0;  // means, or sums, over the same steps
  double share = 1, noise = 1;
};

// In samples, for steps of `batch` samples. NaN: not known, since there is one part only, or since the noise hides the
// gradient.
double noise_scale(const GradientSquares& squares, double batch);

}  // namespace ddp
