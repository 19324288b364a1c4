// The progress of a run as one line of text. Pure functions.
#pragma once

#include "ddp/step_speed.h"

#include <cmath>
#include <cstdint>
#include <string>

namespace ddp {

struct Progress {
  int64_t epoch = 1, epochs = 1;
  int64_t step = 0, steps = 1;  // steps done of this epoch, and all of it
  double loss = std::nan("");
  double samples_per_second = std::nan("");  // NaN: not known
  int64_t sequence_length = 0;               // tokens of a sample; 0: samples are images
  double seconds_left = std::nan("");        // of the run, without evaluations; NaN: not known
  StepTimes parts = {};                      // of recent steps

  double tokens_per_second() const {  // NaN: not known, or there are no tokens
    return sequence_length > 0 ? samples_per_second * static_cast<double>(sequence_length) : std::nan("");
  }
};

// Such as "epoch 2/3  [#####.....]  120/235  loss 0.4321  1234 samples/s  0:42 left  data 3% compute 90% comm 7%", in
// fewer columns than `width`, so that no terminal breaks the line; a run on tokens has tokens/s after samples/s. Where
// there is no room it leaves out the parts of a step, then the epoch, the bar, the samples, the tokens, the loss, the
// time left; the steps become a share, and then nothing. With `colour` it has escape codes for colours, which take no
// columns; else it is ASCII.
std::string progress_bar(const Progress& progress, int width, bool colour);

// Such as "0:42", "1:02:03" or "3d 04:05". Empty where the time is not known.
std::string duration_text(double seconds);

}  // namespace ddp
