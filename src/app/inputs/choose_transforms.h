// What becomes of pictures before a network reads them, from the options and from what the check found.
#pragma once

#include "app/inputs/data_config.h"
#include "data/picture_facts.h"
#include "data/transform.h"

#include <cstdint>
#include <string>

namespace ddp {

struct Transforms {
  TransformConfig train, validation;
};

// Throws Error: Exit::usage for options that do not fit the pictures, Exit::data for pictures of several sizes where
// one size is needed.
Transforms transforms_of(const InputConfig& input, const PictureFacts& facts, uint64_t seed);

// The network's own, for both parts. Throws Error(Exit::model) where the network does not resize and the pictures have
// another size; Exit::usage where their sizes are not known.
Transforms transforms_of(const EvaluatedInput& input, const PictureFacts& facts);

// For the banner.
std::string describe(const Transforms& transforms, const DecodeConfig& decode);

}  // namespace ddp
