// What the logits of one sample say about its class.
#pragma once

#include <cstdint>

namespace ddp {

// Where a logit of the sample is NaN, `best` may be no class at all.
struct RankedClass {
  int32_t best = 0;        // the class with the largest logit, the first of equal ones
  int32_t label_rank = 0;  // number of classes before the label: of larger logits, of equal ones before it, and of NaN
  friend bool operator==(const RankedClass&, const RankedClass&) = default;
};

}  // namespace ddp
