// What a network that reads tokens is.
#pragma once

#include "nn/model_file.h"
#include "nn/network.h"

#include <string>

namespace ddp {

// Whether the first layer of the file is an embedding: the network reads tokens, not images. Errors are as those of
// make_model().
bool begins_with_embedding(const ModelFile& file, const std::string& where);

// Whether no position of a network that reads tokens depends on a later one, in training as in inference.
bool is_causal(const Network& network);

}  // namespace ddp
