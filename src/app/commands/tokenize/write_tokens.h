// Encodes texts to files of tokens: the work of ddp_train tokenize.
#pragma once

#include "app/commands/tokenize/tokenize_options.h"

#include <cstddef>
#include <string>

namespace ddp {

// Writes train.bin, vocabulary.txt and, with val_split, val.bin: see tokenize_options.h and new_token_file.h. The token
// end_of_text() stands before each document. val.bin begins behind the last word that ends before its share of the
// bytes. Reads `most` bytes at once: the result does not depend on it, unless a word has more than 16 MiB, which is
// cut. Returns lines for the user. Throws Error: Exit::data, Exit::output; then there are no files.
std::string write_tokens(const TokenizeOptions& options, size_t most = size_t{4} << 20);

}  // namespace ddp
