// The file changes.json in the folder of a run: what --change has changed, and from which step on.
#pragma once

#include "app/options/resumed_options.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ddp {

std::string to_json(std::span<const OptionChange> changes);

// `text` may be a stranger's; `subject` is its name in the message. Throws Error(Exit::data).
std::vector<OptionChange> changes_from_json(const std::string& text, const std::string& subject);

// Those of a run, in their order; none where the folder has no such file. Throws Error(Exit::data).
std::vector<OptionChange> read_changes(const std::filesystem::path& folder);

// Writes `now`, the changes after the checkpoint `saved`, behind those of `earlier` that the checkpoint has. `earlier`:
// what the file had. Writes no file where there is nothing to write. Throws Error(Exit::output).
void write_changes(const std::filesystem::path& folder, std::vector<OptionChange> earlier,
                   std::span<const OptionChange> now, const RunState& saved);

}  // namespace ddp
