// Sizes of tokens that options and the metadata of weights have in common.
#pragma once

#include <cstdint>

namespace ddp {

inline constexpr int64_t kLongestSequence = int64_t{1} << 24, kMostVocabulary = int64_t{1} << 20;  // the limits
inline constexpr int64_t kSequenceLength = 1024, kGpt2Vocabulary = 50257;                          // the defaults

}  // namespace ddp
