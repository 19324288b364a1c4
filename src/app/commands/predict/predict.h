// ddp_train predict: says what a trained network sees in pictures. Runs on the CPU, without MPI.
#pragma once

#include "core/error.h"

#include <cstdio>
#include <istream>
#include <span>
#include <string>

namespace ddp {

// Writes a line for each picture to `out`, in the order of `arguments`, which follow "predict". `list` is the list that
// "-" stands for. Returns Exit::data if a picture could not be read, which its line says, or which is of a
// kind that is not read. Warns of the files of folders that it leaves out. Throws Error: Exit::usage,
// Exit::data or Exit::model for the network, Exit::output where `out` cannot be written.
Exit predict(std::span<const std::string> arguments, std::istream& list, std::FILE* out);

}  // namespace ddp
