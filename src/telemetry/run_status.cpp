#include "telemetry/run_status.h"

#include "core/error.h"
#include "core/json_reader.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace ddp {
namespace {

using nlohmann::json;

constexpr int kStatusFormat = 1;
constexpr JsonLimits kStatusLimits{.bytes = kMostStatusBytes, .values = 500'000, .depth = 4};
constexpr std::array kStates{"running", "done", "stopped", "failed"};

class Reader {
 public:
  Reader(const json& object, const std::string& subject) : object_(object), subject_(subject) {
    require(object.is_object(), Exit::data, "{} is not the status of a run", subject);
  }

  bool has(const char* name) const { return object_.contains(name); }
  const json& at(const char* name) const {
    const auto found = object_.find(name);
    require(found != object_.end(), Exit::data, "{} is not the status of a run: it has no \"{}\"", subject_, name);
    return *found;
  }
  double real(const char* name) const {
    const json& value = at(name);
    require(value.is_number() || value.is_null(), Exit::data, "\"{}\" of {} is not a number", name, subject_);
    return value.is_null() ? std::nan("") : value.get<double>();
  }
  int64_t count(const char* name) const {
    const json& value = at(name);
    const bool counts = value.is_number_unsigned() && value.get<uint64_t>() <= std::numeric_limits<int64_t>::max();
    require(counts, Exit::data, "\"{}\" of {} is not a count", name, subject_);
    return value.get<int64_t>();
  }
  std::string text(const char* name) const {
    const json& value = at(name);
    require(value.is_string(), Exit::data, "\"{}\" of {} is not a text", name, subject_);
    return value.get<std::string>();
  }

 private:
  const json& object_;
  const std::string& subject_;
};

RankLine parse_rank(const json& value, const std::string& subject) {
  const Reader rank(value, subject);
  const double silent = rank.real("silent_seconds");
  return {.rank = static_cast<int>(std::min<int64_t>(rank.count("rank"), std::numeric_limits<int>::max())),
          .host = rank.text("host"),
          .phase = rank.text("phase"),
          .step = rank.count("step"),
          .silent_seconds = silent >= 0 ? silent : -1};
}

}  // namespace

RankLine line_of(const RankStatus& rank) {
  using State = RankStatus::State;
  const bool works = rank.state == State::running || rank.state == State::late;
  return {.rank = rank.rank,
          .host = rank.host,
          .phase = works ? name_of(rank.phase) : key_of(rank.state),
          .step = rank.step,
          .silent_seconds = rank.silent_seconds.value_or(-1)};
}

std::string status_json(const RunStatus& s) {
  const Progress& p = s.progress;
  nlohmann::ordered_json status{{"format", kStatusFormat},
                                {"state", kStates[static_cast<size_t>(s.state)]},
                                {"host", s.host},
                                {"pid", s.pid},
                                {"written", s.written},
                                {"epoch", p.epoch},
                                {"epochs", p.epochs},
                                {"step", s.step},
                                {"steps", s.steps},
                                {"step_of_epoch", p.step},
                                {"steps_per_epoch", p.steps},
                                {"loss", p.loss},
                                {"samples_per_second", p.samples_per_second},
                                {"seconds_left", p.seconds_left},
                                {"data_ms", p.parts.data},
                                {"compute_ms", p.parts.compute},
                                {"exposed_comm_ms", p.parts.exposed_comm},
                                {"accuracy", nullptr},
                                {"ranks", json::array()}};
  if (s.accuracy) status["accuracy"] = *s.accuracy;
  if (p.sequence_length > 0) {
    status["sequence_length"] = p.sequence_length;
    status["tokens_per_second"] = p.tokens_per_second();
  }
  if (s.test_loss) status["test_loss"] = *s.test_loss;
  for (const RankLine& rank : s.ranks)
    status["ranks"].push_back({{"rank", rank.rank},
                               {"host", rank.host},
                               {"phase", rank.phase},
                               {"step", rank.step},
                               {"silent_seconds", rank.silent_seconds}});
  return status.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

RunStatus parse_status(std::string_view text, const std::string& subject) {
  const json value = read_json(text, subject, kStatusLimits);
  const Reader status(value, subject);
  require(status.count("format") == kStatusFormat, Exit::data, "{} is of another version of this program", subject);
  const auto state = std::ranges::find(kStates, status.text("state"));
  require(state != kStates.end(), Exit::data, "{} is not the status of a run: its state is unknown", subject);
  const double accuracy = status.real("accuracy");
  RunStatus result{.state = static_cast<RunStatus::State>(state - kStates.begin()),
                   .host = status.text("host"),
                   .pid = status.count("pid"),
                   .written = status.real("written"),
                   .progress = {.epoch = status.count("epoch"),
                                .epochs = status.count("epochs"),
                                .step = status.count("step_of_epoch"),
                                .steps = status.count("steps_per_epoch"),
                                .loss = status.real("loss"),
                                .samples_per_second = status.real("samples_per_second"),
                                .sequence_length = status.has("sequence_length") ? status.count("sequence_length") : 0,
                                .seconds_left = status.real("seconds_left"),
                                .parts = {.data = status.real("data_ms"),
                                          .compute = status.real("compute_ms"),
                                          .exposed_comm = status.real("exposed_comm_ms")}},
                   .step = status.count("step"),
                   .steps = status.count("steps"),
                   .accuracy = std::isnan(accuracy) ? std::nullopt : std::optional(accuracy),
                   .test_loss = status.has("test_loss") ? std::optional(status.real("test_loss")) : std::nullopt,
                   .ranks = {}};
  const json& ranks = status.at("ranks");
  require(ranks.is_array(), Exit::data, "\"ranks\" of {} is not a list", subject);
  for (const json& rank : ranks) result.ranks.push_back(parse_rank(rank, subject));
  return result;
}

}  // namespace ddp
