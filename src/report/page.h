// The report of one or several runs as one HTML page that needs nothing else: no network, no other file.
//
// What the page shows of a run is the text of strangers, such as the names of classes. It is escaped; and the page's
// Content-Security-Policy allows no script and no style but those with the page's nonce, and no network at all.
#pragma once

#include "report/run_record.h"

#include <span>
#include <string>

namespace ddp::report {

struct PageInfo {
  std::string version;  // of the program that makes the page
  std::string time;     // when
  std::string nonce;    // a word that nobody can guess: letters and digits
};

// One to Plot::kColours runs.
std::string page(std::span<const RunRecord> runs, const PageInfo& info);

}  // namespace ddp::report
