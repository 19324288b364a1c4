// Whether a call overwrites its result buffer or adds to it.
#pragma once

namespace ddp {

enum class Gradient { overwrite, add };

}  // namespace ddp
