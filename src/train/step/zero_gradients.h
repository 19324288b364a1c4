// Which parameters do not learn.
#pragma once

#include "train/step/replica.h"

#include <string>
#include <vector>

namespace ddp {

// The names of the parameters whose gradients of the last step are all zero. Waits for the device. Between steps;
// not collective. Empty where a rank does not have the whole gradient (ZeRO).
std::vector<std::string> zero_gradients_of(const Replica& replica);

}  // namespace ddp
