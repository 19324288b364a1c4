// Which options fit which kind of data.
#pragma once

#include "app/inputs/data_config.h"

#include <string>

namespace ddp {

// Of a value of --dataset.
inline bool is_cifar(const std::string& kind) { return kind.starts_with("cifar"); }
inline bool has_tokens(const std::string& kind) { return kind == "tokens"; }
inline bool has_pictures(const std::string& kind) { return kind == "folder" || kind == "csv"; }

// Throws Error: Exit::usage for an option that means nothing for this kind of data, Exit::model for data that the
// evaluated network does not read. `kind` is not "auto".
void require_options_fit(const DataConfig& config, const std::string& kind);

}  // namespace ddp
