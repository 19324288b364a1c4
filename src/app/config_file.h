// Configuration files in TOML for CLI11: one key for each long option, without its dashes.
#pragma once

#include <memory>
#include <string>

namespace CLI {
class Config;
}

namespace ddp {

// Throws Error(Exit::usage) with line and reason where a file is not TOML, nested, or longer than 64 KiB.
std::shared_ptr<CLI::Config> make_toml_reader();

// A line of such a file. A value that is not `text` stands as a number where TOML knows it as one.
std::string toml_entry(const std::string& key, const std::string& value, bool text);

}  // namespace ddp
