// A change of an option in a run, and the file in the run's folder that lists them.
#pragma once

#include <cstdint>
#include <string>

namespace ddp {

inline constexpr const char* kChangesFile = "changes.json";

// An option of the run that has the value `to` in all steps after `step`.
struct OptionChange {
  int64_t step = 0;
  std::string option, from, to;  // option: such as "--lr"; from: empty where the run had no value
};

}  // namespace ddp
