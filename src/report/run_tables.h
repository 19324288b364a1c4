// The tables of the page: epochs, classes, options, and the processes of the runs with their versions.
#pragma once

#include "report/run_record.h"

#include <span>
#include <string>

namespace ddp::report {

// Each is HTML; empty where the runs have nothing for it.
std::string epoch_tables(std::span<const RunRecord> runs);
std::string class_tables(std::span<const RunRecord> runs);
std::string option_tables(std::span<const RunRecord> runs);  // first those whose values differ
std::string process_table(std::span<const RunRecord> runs);

}  // namespace ddp::report
