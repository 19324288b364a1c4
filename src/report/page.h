// The report of one or several runs as one HTML page that needs nothing else: no network, no other file.
//
// What the page shows of a run is the text of strangers, such as the names of classes. It is escaped.
#pragma once

#include "report/document.h"
#include "report/run_record.h"

#include <span>
#include <string>

namespace ddp::report {

// One to Plot::kColours runs.
std::string page(std::span<const RunRecord> runs, const PageInfo& info);

}  // namespace ddp::report
