#include "checkpoint/run_state.h"

#include "core/error.h"
#include "core/json_reader.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

namespace ddp {
namespace {

constexpr int kStateFormat = 2;  // format 1 has other names for the last three fields

constexpr std::string_view kBestLoss = "best_loss";  // of tokens only
// Older programs wrote none of these.
constexpr std::string_view kOptional[] = {"best_epoch", "bn_stats_samples", "options", kBestLoss};
constexpr const char *kPictures = "pictures", *kExcludedInEpoch = "excluded_in_epoch", *kSizes = "sizes";
constexpr const char *kPlateau = "plateau", *kEarlyStop = "early_stop", *kBalance = "balance";

// Calls field(name, member) for each field of a state that is written or read in this format.
template <class State, class Field>
void for_each_field(State& state, int format, Field&& field) {
  field("step", state.step);
  field("epoch", state.epoch);
  field("cursor", state.cursor);
  field("skipped", state.skipped);
  field("skipped_in_a_row", state.skipped_in_a_row);
  field("evaluation_due", state.evaluation_due);
  field("samples", state.samples);
  field("train_seconds", state.train_seconds);
  field("accuracy", state.accuracy);
  field("best_accuracy", state.best_accuracy);
  field("best_epoch", state.best_epoch);
  field(kBestLoss.data(), state.best_loss);
  field("bn_stats_samples", state.bn_stats_samples);
  field(format == 1 ? "mathematics" : "affects_results", state.affects_results);
  field(format == 1 ? "bits" : "affects_rounding", state.affects_rounding);
  field(format == 1 ? "choices" : "autotune", state.autotune);
  field("options", state.options);
}

template <class State, class Field>
requires std::same_as<std::remove_const_t<State>, PlateauState>
void for_each_field(State& state, Field&& field) {
  field("best", state.best);
  field("bad", state.bad);
  field("cooldown", state.cooldown);
  field("factor", state.factor);
}
template <class State, class Field>
requires std::same_as<std::remove_const_t<State>, EarlyStopState>
void for_each_field(State& state, Field&& field) {
  field("best", state.best);
  field("best_epoch", state.best_epoch);
  field("bad", state.bad);
  field(kBestLoss.data(), state.best_loss);
}

template <class State, class Field>
requires std::same_as<std::remove_const_t<State>, BalanceState>
void for_each_field(State& state, Field&& field) {
  field("shares", state.shares);
  field("speeds", state.speeds);
}

// These return false for a JSON value of the wrong kind. JSON has no NaN: null stands for it.
bool assign(const nlohmann::json& from, int64_t& to) {
  if (!from.is_number_integer() || from < 0 || from > std::numeric_limits<int64_t>::max()) return false;
  to = from.get<int64_t>();
  return true;
}
bool assign(const nlohmann::json& from, double& to) {
  if (!from.is_number() && !from.is_null()) return false;
  to = from.is_null() ? std::numeric_limits<double>::quiet_NaN() : from.get<double>();
  return true;
}
bool assign(const nlohmann::json& from, std::optional<double>& to) {
  if (!from.is_number() || from < 0) return false;
  to = from.get<double>();
  return true;
}
bool assign(const nlohmann::json& from, bool& to) {
  if (!from.is_boolean()) return false;
  to = from.get<bool>();
  return true;
}
bool assign(const nlohmann::json& from, std::map<std::string, std::string>& to) {
  if (!from.is_object()) return false;
  for (const auto& [name, value] : from.items()) {
    if (!value.is_string()) return false;
    to[name] = value.get<std::string>();
  }
  return true;
}

template <class Number>
bool assign(const nlohmann::json& from, std::vector<Number>& to) {
  return from.is_array() &&
         std::ranges::all_of(from, [&](const nlohmann::json& one) { return assign(one, to.emplace_back()); });
}

nlohmann::ordered_json to_json(const PartState& part) {
  nlohmann::ordered_json json{{"left_out", part.left_out}, {"broken", nlohmann::ordered_json::array()}};
  for (const BrokenPicture& one : part.broken)
    json["broken"].push_back(
        {{"picture", one.picture}, {"bytes", one.bytes}, {"step", one.step}, {"reason", one.reason}});
  for (const auto& [picture, bytes] : part.sizes) json[kSizes].push_back({{"picture", picture}, {"bytes", bytes}});
  return json;
}

bool assign(const nlohmann::json& from, std::string& to) {
  if (from.is_string()) to = from.get<std::string>();
  return from.is_string();
}
bool assign(const nlohmann::json& from, PartState& to) {
  const auto sizes = from.value(kSizes, nlohmann::json::array());
  if (!from.at("left_out").is_array() || !from.at("broken").is_array() || !sizes.is_array()) return false;
  for (const auto& picture : from.at("left_out"))
    if (!assign(picture, to.left_out.emplace_back())) return false;
  for (const auto& one : from.at("broken")) {
    BrokenPicture& broken = to.broken.emplace_back();
    if (!assign(one.at("picture"), broken.picture) || !assign(one.at("bytes"), broken.bytes) ||
        !assign(one.at("step"), broken.step) || !assign(one.at("reason"), broken.reason))
      return false;
  }
  for (const auto& one : sizes) {
    int64_t picture = 0, bytes = 0;
    if (!assign(one.at("picture"), picture) || !assign(one.at("bytes"), bytes)) return false;
    if (!to.sizes.emplace(picture, bytes).second) return false;
  }
  const auto ascend = [](const auto& pictures, auto position) {
    return std::ranges::adjacent_find(pictures, std::ranges::greater_equal(), position) == pictures.end();
  };
  return ascend(to.left_out, std::identity()) && ascend(to.broken, &BrokenPicture::picture);
}
bool assign(const nlohmann::json& from, PicturesState& to) {
  return assign(from.at("training"), to.training) && assign(from.at("validation"), to.validation) &&
         assign(from.at(kExcludedInEpoch), to.excluded_in_epoch);
}

void write_member(nlohmann::ordered_json& json, const char* name, const auto& member) { json[name] = member; }
void write_member(nlohmann::ordered_json& json, const char* name, const std::optional<double>& member) {
  if (member) json[name] = *member;
}

template <class State>
bool assign_fields(const nlohmann::json& from, State& to) {
  bool fits = true;
  for_each_field(to, [&](const char* name, auto& member) {
    if (name == kBestLoss && !from.contains(name)) return;
    fits = fits && assign(from.at(name), member);
  });
  return fits;
}
bool assign(const nlohmann::json& from, PlateauState& to) {
  return assign_fields(from, to) && to.factor >= 0 && to.factor <= 1;
}
bool assign(const nlohmann::json& from, EarlyStopState& to) {
  return assign_fields(from, to) && to.best >= -1 && to.best <= 1;
}

bool assign(const nlohmann::json& from, BalanceState& to) {
  constexpr int64_t kMost = int64_t{1} << 40;
  if (!assign_fields(from, to)) return false;
  return (to.shares.empty() || to.speeds.empty() || to.shares.size() == to.speeds.size()) &&
         std::ranges::all_of(to.shares, [](int64_t share) { return share >= 1 && share <= kMost; }) &&
         std::ranges::all_of(to.speeds, [](double speed) { return std::isfinite(speed) && speed > 0; });
}

// A part that only some runs have.
template <class Part>
void assign_part(const nlohmann::json& json, const char* name, const std::string& file, std::optional<Part>& part) {
  if (json.contains(name))
    require(assign(json.at(name), part.emplace()), Exit::data, "{}: \"{}\" has an invalid value", file, name);
}

}  // namespace

std::string to_json(const RunState& state) {
  nlohmann::ordered_json json;
  json["format"] = kStateFormat;
  for_each_field(state, kStateFormat, [&](const char* name, const auto& member) { write_member(json, name, member); });
  if (state.pictures)
    json[kPictures] = {{"training", to_json(state.pictures->training)},
                       {"validation", to_json(state.pictures->validation)},
                       {kExcludedInEpoch, state.pictures->excluded_in_epoch}};
  const auto write_part = [&](const char* part, const auto& of_part) {
    if (of_part)
      for_each_field(*of_part, [&](const char* name, const auto& member) { write_member(json[part], name, member); });
  };
  write_part(kPlateau, state.plateau);
  write_part(kEarlyStop, state.early_stop);
  write_part(kBalance, state.balance);
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

RunState run_state_from_json(const std::string& text, const std::string& file) {
  RunState state;
  try {
    const auto json = read_json(text, file, {.bytes = kMaxStateBytes, .values = 1 << 20});
    const auto& format = json.at("format");
    require(format == 1 || format == kStateFormat, Exit::data,
            "{} has an unknown format; this program reads formats 1 and {}", file, kStateFormat);
    for_each_field(state, format.get<int>(), [&](const char* name, auto& member) {
      if (std::ranges::count(kOptional, name) > 0 && !json.contains(name)) return;
      require(assign(json.at(name), member), Exit::data, "{}: \"{}\" has an invalid value", file, name);
    });
    assign_part(json, kPictures, file, state.pictures);
    assign_part(json, kPlateau, file, state.plateau);
    assign_part(json, kEarlyStop, file, state.early_stop);
    assign_part(json, kBalance, file, state.balance);
  } catch (const nlohmann::json::exception& e) {
    fail(Exit::data, "{} is not a checkpoint's state: {}", file, e.what());
  }
  const auto require_sound = [&](bool holds, const char* name) {
    require(holds, Exit::data, "{}: \"{}\" has an impossible value", file, name);
  };
  require_sound(state.skipped <= state.step, "skipped");
  require_sound(state.skipped_in_a_row <= state.skipped, "skipped_in_a_row");
  require_sound(!(state.train_seconds < 0), "train_seconds");
  return state;
}

}  // namespace ddp
