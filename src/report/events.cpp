#include "report/events.h"

#include "core/error.h"
#include "core/json_reader.h"
#include "core/read_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace ddp::report {
namespace {

using nlohmann::json;

constexpr int64_t kLongestLine = 4 << 20;
constexpr size_t kMostRanks = 1 << 16;
constexpr JsonLimits kLineLimits{.bytes = kLongestLine, .values = 1'000'000, .depth = 8};
constexpr std::array kProcessFacts = {"time",       "version",          "model",        "parameters", "data",
                                      "batch_size", "training_samples", "test_samples", "classes",    "device",
                                      "threads",    "precision",        "backend",      "transport",  "libraries"};

const json* find(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

double number_in(const json& object, const char* name) {
  constexpr double kMost = 1e30;
  const json* const value = find(object, name);
  if (!value || !value->is_number()) return kUnknown;
  const auto number = value->get<double>();
  return std::abs(number) <= kMost ? number : kUnknown;
}

std::string text_in(const json& object, const char* name) {
  const json* const value = find(object, name);
  if (!value) return "";
  if (value->is_string()) return value->get<std::string>();
  return value->is_number() ? value->dump() : "";
}

// A count or a step; none where it is no whole number from 0 to 2^53.
std::optional<int64_t> whole_in(const json& object, const char* name) {
  const json* const value = find(object, name);
  if (!value || !value->is_number_unsigned()) return std::nullopt;
  const auto number = value->get<uint64_t>();
  if (number > uint64_t{1} << 53) return std::nullopt;
  return static_cast<int64_t>(number);
}

// Calls `use` for each object of a list.
template <class Use>
void for_each_object(const json& event, const char* list, Use use) {
  const json* const found = find(event, list);
  if (!found || !found->is_array()) return;
  for (const json& entry : *found)
    if (entry.is_object()) use(entry);
}

// A time that is missing counts as none; negative times make no sense.
double time_in(const json& object, const char* name) {
  const double ms = number_in(object, name);
  return ms >= 0 ? ms : 0;
}

Parts parts_of(const json& object) {
  return {.data = time_in(object, "data_ms"),
          .compute = time_in(object, "compute_ms"),
          .exposed_comm = time_in(object, "exposed_comm_ms")};
}

StepEvent step_of(const json& event) {
  return {.step = *whole_in(event, "step"),
          .epoch = whole_in(event, "epoch").value_or(0),
          .loss = number_in(event, "loss"),
          .lr = number_in(event, "lr"),
          .samples = number_in(event, "samples"),
          .tokens = number_in(event, "tokens"),
          .times = parts_of(event),
          .skipped = text_in(event, "skipped")};
}

EvalEvent eval_of(const json& event) {
  return {.step = *whole_in(event, "step"),
          .epoch = whole_in(event, "epoch").value_or(0),
          .accuracy = number_in(event, "accuracy"),
          .loss = number_in(event, "loss"),
          .samples = number_in(event, "samples"),
          .seconds = number_in(event, "seconds"),
          .ema_accuracy = number_in(event, "ema_accuracy"),
          .ema_loss = number_in(event, "ema_loss"),
          .perplexity = number_in(event, "perplexity")};
}

std::optional<Event> speed_of(const json& event) {
  SpeedEvent speed{.step = *whole_in(event, "step"),
                   .epoch = whole_in(event, "epoch").value_or(0),
                   .ranks = {},
                   .communication = number_in(event, "communication_ms"),
                   .noise_scale = number_in(event, "noise_scale")};
  for_each_object(event, "ranks", [&](const json& rank) { speed.ranks.push_back(parts_of(rank)); });
  if (speed.ranks.empty() || speed.ranks.size() > kMostRanks) return std::nullopt;
  return speed;
}

RunEvent run_of(const json& event) {
  RunEvent run{.step = *whole_in(event, "step"),
               .world_size = whole_in(event, "world_size").value_or(0),
               .epochs = whole_in(event, "epochs").value_or(0),
               .steps_per_epoch = whole_in(event, "steps_per_epoch").value_or(0),
               .hosts = {},
               .facts = {}};
  if (const json* const hosts = find(event, "hosts"); hosts && hosts->is_array())
    for (const json& host : *hosts)
      if (host.is_string()) run.hosts.push_back(host.get<std::string>());
  for (const char* name : kProcessFacts)
    if (std::string text = text_in(event, name); !text.empty()) run.facts.emplace_back(name, std::move(text));
  return run;
}

std::optional<Event> timeline_of(const json& event) {
  TimelineEvent timeline{.step = *whole_in(event, "step"), .ms = number_in(event, "ms"), .ranks = {}};
  for_each_object(event, "ranks", [&](const json& rank) {
    RankSpans& to = timeline.ranks.emplace_back(RankSpans{.rank = whole_in(rank, "rank").value_or(0), .spans = {}});
    for_each_object(rank, "spans", [&](const json& span) {
      const double begin = number_in(span, "begin_ms"), end = number_in(span, "end_ms");
      if (begin <= end)  // false with kUnknown
        to.spans.push_back(
            {.track = text_in(span, "track"), .name = text_in(span, "name"), .begin = begin, .end = end});
    });
  });
  if (std::ranges::all_of(timeline.ranks, [](const RankSpans& rank) { return rank.spans.empty(); }))
    return std::nullopt;
  return timeline;
}

}  // namespace

const Parts& slowest_of(const std::vector<Parts>& ranks) { return *std::ranges::max_element(ranks, {}, &Parts::busy); }

std::string RunEvent::fact(const std::string& name) const {
  const auto found = std::ranges::find(facts, name, &std::pair<std::string, std::string>::first);
  return found == facts.end() ? "" : found->second;
}

std::optional<Event> parse_event(const json& event) {
  const std::string kind = text_in(event, "event");
  if (!whole_in(event, "step")) return std::nullopt;
  if (kind == "step") return step_of(event);
  if (kind == "eval") return eval_of(event);
  if (kind == "speed") return speed_of(event);
  if (kind == "run") return run_of(event);
  if (kind == "timeline") return timeline_of(event);
  return std::nullopt;
}

namespace {

// Splits what add() gets into lines. A line that is too long is given as an empty text.
class Lines {
 public:
  explicit Lines(std::function<void(const std::string&)> take) : take_(std::move(take)) {}

  void add(std::string_view text) {
    while (true) {
      const size_t end = text.find('\n');
      const std::string_view part = text.substr(0, end);
      if (std::cmp_less(kLongestLine, line_.size() + part.size())) too_long_ = true;
      if (too_long_)
        line_.clear();
      else
        line_ += part;
      if (end == text.npos) return;
      take_(line_);
      line_.clear();
      too_long_ = false;
      text.remove_prefix(end + 1);
    }
  }

 private:
  const std::function<void(const std::string&)> take_;
  std::string line_;
  bool too_long_ = false;
};

}  // namespace

int64_t read_events(const std::filesystem::path& metrics, const std::function<void(Event&&)>& take) {
  int64_t unread = 0;
  const auto take_line = [&](const std::string& line) {
    try {
      const json event = read_json(line, "the line", kLineLimits);
      if (event.is_object() && !text_in(event, "event").empty()) {
        if (auto parsed = parse_event(event)) take(std::move(*parsed));
        return;
      }
    } catch (const Error&) {
    }
    ++unread;
  };
  FileStream file(metrics);
  Lines lines(take_line);
  std::array<char, 1 << 16> buffer{};
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0)
    lines.add({buffer.data(), static_cast<size_t>(file.gcount())});
  require(!file.bad(), Exit::data, "cannot read {}", metrics.string());
  return unread;
}

}  // namespace ddp::report
