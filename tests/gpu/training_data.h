#pragma once

#include "data/catalog.h"

#include <cstdlib>
#include <memory>

namespace ddp::testing {

// Fashion-MNIST from the folder that DDP_DATA names, or from where its package puts it.
inline std::unique_ptr<Dataset> training_data() {
  const char* const folder = std::getenv("DDP_DATA");
  return open_datasets("fashion-mnist", folder ? folder : "").train;
}

}  // namespace ddp::testing
