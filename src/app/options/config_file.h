// Configuration files in TOML for CLI11: one key for each long option, without its dashes; for --group also the tables
// [[group]].
#pragma once

#include <memory>
#include <string>

namespace CLI {
class Config;
}

namespace ddp {

// Reads a file. Throws Error(Exit::usage) with the line and the reason if the file is not TOML, has other
// tables, or is longer than 64 KiB.
std::shared_ptr<CLI::Config> make_toml_reader();

// A line of a configuration file. A value that is no `text` is written as a number if TOML reads it as a number.
std::string toml_entry(const std::string& key, const std::string& value, bool text);

}  // namespace ddp
