// The numbers of metrics.jsonl as CSV: one table for all runs, for other programs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace ddp::report {

// The names of the columns. `kind` says what a row is:
//   step    a step: loss, lr, samples, the parts of rank 0 in ms, and the reason if it was skipped
//   eval    an evaluation: accuracy, loss, samples, seconds
//   speed   the mean parts of a rank's step since the last such rows, in ms; communication alone, and the noise scale,
//           are those of all ranks
// Fields that a row has not, or that are unknown, are empty.
std::string csv_header();

// Gives the rows of a run to `write` in parts, in the order of metrics.jsonl, until it returns false. Returns whether
// all were written. The memory is bounded. Throws Error(Exit::data) where the file cannot be read.
bool write_csv(const std::filesystem::path& folder, const std::string& name,
               const std::function<bool(const std::string&)>& write);

}  // namespace ddp::report
