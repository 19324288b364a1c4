// A confusion matrix as HTML.
#pragma once

#include "report/confusion.h"

#include <string>

namespace ddp::report {

// A grid of at most 40 classes, and the most frequent errors as a table.
std::string draw_confusion(const std::string& run, const Confusion& confusion);

}  // namespace ddp::report
