// Where a network comes from: the program, or a file (nn/model_file.h).
#pragma once

#include "core/shape.h"
#include "nn/model_file.h"
#include "nn/network.h"

#include <cstdint>
#include <string>

namespace ddp {

// Whether --model names a file: it ends in ".toml". Any other value is the name of a built-in network.
bool is_model_path(const std::string& model);

// Reads the file; a built-in network has its name only. Throws Error(Exit::data) as read_whole_file(), at
// kMostModelBytes.
ModelFile read_model_source(const std::string& model);

// The value of --model in the run state: the name of a built-in network, or the hash of the text of a file, without its
// path.
std::string identity_of(const ModelFile& source);

// For people: "lenet", or "mine from a file of hash 0123456789abcdef".
std::string describe(const ModelFile& source);

// `where` names the file in messages. Throws Error: Exit::usage for an unknown name, Exit::model as make_model().
Network network_of(const ModelFile& source, const std::string& where, ImageShape image, int64_t classes);

// Whether the network reads tokens, not images; false of an unknown name. Errors are as those of network_of().
bool reads_tokens(const ModelFile& source, const std::string& where);

// What a network of tokens reads; 0: not known.
struct TokenInput {
  int64_t length = 0, vocabulary = 0;
};

// Replaces 0: the sequence length by the least number of positions of the network, else 1024, the size of the
// vocabulary by GPT-2's. Errors are as those of network_of().
TokenInput complete(TokenInput input, const ModelFile& source, const std::string& where);

}  // namespace ddp
