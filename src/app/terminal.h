// Whether the run's output goes to a terminal.
#pragma once

namespace ddp {

// Under mpirun each rank's stdout is a pseudo-terminal; there the stdout of mpirun, the parent process, decides.
bool output_is_terminal();

}  // namespace ddp
