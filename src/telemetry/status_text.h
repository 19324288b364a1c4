// The state of a run as text for a person. A pure function.
#pragma once

#include "telemetry/run_status.h"

#include <string>

namespace ddp {

// How a run is seen from outside of it.
struct Sight {
  double age = 0;     // seconds since the status was written
  bool died = false;  // the process that wrote it is gone, although the run had not ended
};

struct TextSize {
  int columns = 80, rows = 24;
};

// The bar of the progress, a table of the ranks (rank, host, phase, step, and the time since its sign of life), and how
// the run goes or has ended. Each line is narrower than `size`, and there are fewer lines than its rows; a line says
// how many ranks have no room. Texts of the status are escaped.
std::string status_text(const RunStatus& status, const Sight& sight, const TextSize& size, bool colour);

}  // namespace ddp
