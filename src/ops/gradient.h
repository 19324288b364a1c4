// Whether a gradient call replaces what its target holds or adds to it.
#pragma once

namespace ddp {

enum class Gradient { overwrite, add };

}  // namespace ddp
