// ddp_train report: one HTML page, or a table as CSV, of one or several runs. Runs without MPI.
#pragma once

#include "core/error.h"

#include <cstdio>
#include <span>
#include <string>

namespace ddp {

// `arguments` follow "report". Prints the path of the page to `out`, or the table. Throws Error: Exit::usage;
// Exit::data where a folder holds no run or a broken one; Exit::output where the page or `out` cannot be written.
Exit write_report(std::span<const std::string> arguments, std::FILE* out);

}  // namespace ddp
