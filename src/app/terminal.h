// Whether the user looks at a terminal.
#pragma once

namespace ddp {

// mpirun gives every rank a pseudo-terminal whatever its own output is, so under it the parent's output decides.
bool output_is_terminal();

}  // namespace ddp
