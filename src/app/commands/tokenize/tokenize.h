// ddp_train tokenize: texts to files of tokens. Runs without MPI.
#pragma once

#include "core/error.h"

#include <cstdio>
#include <span>
#include <string>

namespace ddp {

// `arguments` follow "tokenize". Prints a line about each file to `out`. Throws Error: Exit::usage; Exit::data for
// texts and vocabulary; Exit::output for the files, of which there are none after an error.
Exit tokenize(std::span<const std::string> arguments, std::FILE* out);

}  // namespace ddp
