#include "app/run/changes_file.h"

#include "app/options/resume.h"
#include "core/durable_file.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "core/printable.h"
#include "core/read_file.h"

#include <nlohmann/json.hpp>

#include <system_error>

namespace ddp {
namespace {

constexpr int64_t kMostBytesOfChanges = 1 << 20;

}  // namespace

std::string to_json(std::span<const OptionChange> changes) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [step, option, from, to] : changes)
    list.push_back({{"step", step}, {"option", option}, {"from", from}, {"to", to}});
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::vector<OptionChange> changes_from_json(const std::string& text, const std::string& subject) {
  const auto list = read_json(text, subject, {.bytes = kMostBytesOfChanges});
  std::vector<OptionChange> changes;
  try {
    for (const auto& entry : list)
      changes.push_back(
          {.step = entry.at("step"), .option = entry.at("option"), .from = entry.at("from"), .to = entry.at("to")});
  } catch (const nlohmann::json::exception& e) {
    fail(Exit::data, "{} is no list of changes: {}", subject, e.what());
  }
  return changes;
}

std::vector<OptionChange> read_changes(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kChangesFile;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  return changes_from_json(read_whole_file(file, kMostBytesOfChanges), printable(file.native()));
}

void write_changes(const std::filesystem::path& folder, std::vector<OptionChange> earlier,
                   std::span<const OptionChange> now, const RunState& saved) {
  const bool exists = !earlier.empty();
  std::erase_if(earlier, [&](const OptionChange& change) {
    const auto found = saved.options.find(change.option);
    const bool has_it = found != saved.options.end() && same_value(found->second, change.to);
    return change.step > saved.step || (change.step == saved.step && !has_it);
  });
  earlier.insert(earlier.end(), now.begin(), now.end());
  if (exists || !earlier.empty()) replace_file(folder / kChangesFile, to_json(earlier));
}

}  // namespace ddp
