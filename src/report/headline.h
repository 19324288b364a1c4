// The head of the page: what the runs are, and what they have reached.
#pragma once

#include "report/run_record.h"

#include <span>
#include <string>

namespace ddp::report {

// The title of the page, as HTML: the model and the data of one run, or the number of runs.
std::string title_of(std::span<const RunRecord> runs);

// The figures: tiles for one run, else a table with a column for each run.
std::string headline(std::span<const RunRecord> runs);

// The span with the colour and the name of run r.
std::string name_with_key(std::span<const RunRecord> runs, size_t r);

}  // namespace ddp::report
