// The timeline of a step: what each rank does when, and its buckets, as HTML.
#pragma once

#include "report/events.h"

#include <string>

namespace ddp::report {

// A group of lanes for each rank, of at most eight ranks. Spans of one track that overlap get a lane each. At most
// 3,000 spans are drawn; a note counts the others. `id`: of the figure on the page.
std::string draw_timeline(const std::string& run, const TimelineEvent& timeline, const std::string& id = "timeline");

std::string timeline_legend();

}  // namespace ddp::report
