#include "app/machine/engine_file.h"

#include "core/durable_file.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "core/printable.h"
#include "core/read_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ddp {
namespace {

constexpr int64_t kMostFileBytes = 1 << 22;
constexpr const char *kIdentity = "identity", *kEngines = "engines";

nlohmann::json parse(const std::string& content, const std::string& file) {
  nlohmann::json json = read_json(content, file, {.bytes = kMostFileBytes, .values = 500'000});
  const auto is_list = [](const nlohmann::json& numbers) {
    return numbers.is_array() && !numbers.empty() &&
           std::ranges::all_of(numbers, [](const auto& number) { return number.is_number_integer(); });
  };
  const auto is_text = [](const nlohmann::json& text) { return text.is_string(); };
  const bool ours = json.is_object() && json.contains(kIdentity) && json.contains(kEngines) &&
                    json[kIdentity].is_object() && json[kEngines].is_object() &&
                    std::ranges::all_of(json[kIdentity], is_text) && std::ranges::all_of(json[kEngines], is_list);
  require(ours, Exit::data, "{} has no engines: remove it, or choose another --engine-file", file);
  return json;
}

}  // namespace

std::string read_engine_file(const std::filesystem::path& file) {
  require_replaceable(file, "--engine-file");
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return "";
  std::string content = read_whole_file(file, kMostFileBytes);
  parse(content, printable(file.native()));
  return content;
}

MeasuredEngines engines_of(const std::string& content, const Identity& identity) {
  if (content.empty()) return {};
  const nlohmann::json json = parse(content, "the file of rank 0");
  if (json[kIdentity].get<Identity>() != identity) return {};
  return json[kEngines].get<MeasuredEngines>();
}

void write_engine_file(const std::filesystem::path& file, const Identity& identity, const MeasuredEngines& engines) {
  const nlohmann::json json{{kIdentity, identity}, {kEngines, engines}};
  replace_file(file, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace ddp
