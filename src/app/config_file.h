// Configuration files in TOML for CLI11: one key for each long option, without its dashes.
#pragma once

#include <memory>

namespace CLI {
class Config;
}

namespace ddp {

// Throws Error(Exit::usage) with line and reason where a file is not TOML, or nested.
std::shared_ptr<CLI::Config> make_toml_reader();

}  // namespace ddp
