#pragma once

#include "data/catalog.h"

#include <cstdlib>
#include <memory>

namespace ddp::testing {

// Fashion-MNIST from the folder DDP_DATA, or else from the folder of its Debian package.
inline std::unique_ptr<Dataset> training_data() {
  const char* const folder = std::getenv("DDP_DATA");
  return open_datasets("fashion-mnist", folder ? folder : "").train;
}

}  // namespace ddp::testing
