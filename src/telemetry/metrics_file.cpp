#include "telemetry/metrics_file.h"

#include "core/durable_file.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "core/read_file.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <system_error>

namespace ddp {
namespace {

// JSON has no NaN: the loss of a skipped step may be null.
nlohmann::ordered_json step_event(const StepResult& r) {
  nlohmann::ordered_json event{{"event", "step"},
                               {"step", r.step},
                               {"epoch", r.epoch},
                               {"loss", r.loss},
                               {"lr", r.lr},
                               {"samples", r.samples},
                               {"data_ms", r.times.data},
                               {"compute_ms", r.times.compute},
                               {"exposed_comm_ms", r.times.exposed_comm},
                               {"begin_ns", r.begin_ns}};
  if (r.sequence_length > 0) event["tokens"] = r.tokens();
  if (r.excluded > 0) event["excluded"] = r.excluded;
  if (!r.skipped.empty()) event["skipped"] = r.skipped;
  return event;
}

nlohmann::ordered_json speed_event(int64_t epoch, int64_t step, const StepSpeed& speed) {
  nlohmann::ordered_json event{{"event", "speed"}, {"epoch", epoch}, {"step", step}};
  for (const StepTimes& times : speed.ranks)
    event["ranks"].push_back(
        {{"data_ms", times.data}, {"compute_ms", times.compute}, {"exposed_comm_ms", times.exposed_comm}});
  event["communication_ms"] = speed.communication;
  event["noise_scale"] = nullptr;
  if (speed.noise_scale) event["noise_scale"] = *speed.noise_scale;
  return event;
}

double ms(int64_t ns) { return std::round(1e-3 * static_cast<double>(ns)) / 1e3; }  // to the microsecond

nlohmann::ordered_json timeline_event(const StepTimeline& timeline) {
  nlohmann::ordered_json event{{"event", "timeline"}, {"step", timeline.step}, {"ms", ms(timeline.duration_ns)}};
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    auto spans = nlohmann::ordered_json::array();
    for (const Span& span : timeline.ranks[rank])
      spans.push_back({{"track", name_of(span.track)},
                       {"name", span.name},
                       {"begin_ms", ms(span.begin_ns)},
                       {"end_ms", ms(span.end_ns)}});
    event["ranks"].push_back({{"rank", rank}, {"spans", std::move(spans)}});
  }
  return event;
}

nlohmann::ordered_json eval_event(int64_t epoch, int64_t step, const Evaluation& e, double seconds) {
  nlohmann::ordered_json event{{"event", "eval"},
                               {"epoch", epoch},
                               {"step", step},
                               {"accuracy", e.accuracy()},
                               {"correct", e.correct},
                               {"samples", e.samples},
                               {"loss", e.loss},
                               {"seconds", seconds - e.statistics_seconds},
                               {"statistics_seconds", e.statistics_seconds}};
  if (e.of_tokens()) {
    event["tokens"] = e.labels();
    event["perplexity"] = e.perplexity();
  }
  if (e.average) {
    event["ema_accuracy"] = e.average->accuracy;
    event["ema_loss"] = e.average->loss;
  }
  if (e.excluded > 0) event["excluded"] = e.excluded;
  return event;
}

constexpr JsonLimits kEventLimits{.bytes = 1 << 22, .values = 1'000'000};  // a timeline has 1 KB for each rank

// Whether a resumed run keeps this line of the existing file; see MetricsFileConfig::done.
bool is_kept(const std::string& line, const MetricsFileConfig& config) {
  nlohmann::json event;
  try {
    event = read_json(line, "the line", kEventLimits);
  } catch (const Error&) {
    return false;
  }
  if (!event.is_object()) return false;
  const auto step = event.find("step");
  if (step == event.end()) return true;
  if (!step->is_number_integer() || *step > config.done) return false;
  return !(config.evaluation_due && *step == config.done && event.find("event") != event.end() &&
           (event["event"] == "eval" || event["event"] == "early_stop"));
}

std::string kept_events(const MetricsFileConfig& config) {
  std::string kept;
  std::error_code error;
  if (config.done == 0) return kept;
  const bool exists = std::filesystem::exists(config.path, error);
  require(!error, Exit::output, "cannot look at {}: {}", config.path.string(), error.message());
  if (!exists) return kept;
  FileStream file(config.path);
  for (std::string line; std::getline(file, line);)
    if (is_kept(line, config)) kept += line + "\n";
  return kept;
}

std::filesystem::path with_kept_events(const MetricsFileConfig& config) {
  replace_file(config.path, kept_events(config));
  return config.path;
}

}  // namespace

MetricsFile::MetricsFile(const MetricsFileConfig& config) : file_(with_kept_events(config)) {
  if (!config.run_event.empty()) write_line(config.run_event);
}

void MetricsFile::step(const StepResult& r) { write_line(step_event(r).dump()); }

void MetricsFile::evaluation(int64_t epoch, int64_t step, const Evaluation& e, double seconds) {
  write_line(eval_event(epoch, step, e, seconds).dump());
  flush();
}

void MetricsFile::early_stop(int64_t epoch, int64_t step, const EarlyStopState& state) {
  write_line(
      nlohmann::ordered_json{{"event", "early_stop"},
                             {"epoch", epoch},
                             {"step", step},
                             {"evaluations", state.bad},
                             {state.best_loss ? "best_loss" : "best_accuracy", state.best_loss.value_or(state.best)},
                             {"best_epoch", state.best_epoch}}
          .dump());
  flush();
}

void MetricsFile::balanced(int64_t epoch, int64_t step, const std::vector<int64_t>& shares,
                           const std::vector<double>& speeds) {
  write_line(nlohmann::ordered_json{
      {"event", "shards"}, {"epoch", epoch}, {"step", step}, {"samples", shares}, {"samples_per_second", speeds}}
                 .dump());
  flush();
}

void MetricsFile::speed(int64_t epoch, int64_t step, const StepSpeed& speed) {
  write_line(speed_event(epoch, step, speed).dump());
  flush();
}

void MetricsFile::saved(const SaveOutcome& outcome) {
  if (!outcome.error.empty()) return;
  write_line(nlohmann::ordered_json{
      {"event", "save"}, {"step", outcome.step}, {"path", outcome.path.string()}, {"seconds", outcome.seconds}}
                 .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));  // the path may be no UTF-8
}

void MetricsFile::excluded(const std::string& part, const std::vector<BrokenPicture>& broken, int64_t, int64_t) {
  for (const BrokenPicture& one : broken)
    write_line(nlohmann::ordered_json{
        {"event", "excluded"}, {"step", one.step}, {"part", part}, {"picture", one.picture}, {"reason", one.reason}}
                   .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  flush();
}

void MetricsFile::exclusions_of_epoch(int64_t epoch, int64_t step, int64_t samples, int64_t excluded) {
  write_line(nlohmann::ordered_json{
      {"event", "epoch"}, {"epoch", epoch}, {"step", step}, {"samples", samples}, {"excluded", excluded}}
                 .dump());
}

void MetricsFile::timeline(const StepTimeline& timeline) {
  write_line(timeline_event(timeline).dump());
  flush();
}

// A line of up to kLine bytes lies in one page of the file: readers may see the file end where a page ends. So a line
// that leaves less room than kLine ends with its page, after spaces, which JSON ignores.
void MetricsFile::write_line(const std::string& json) {
  constexpr size_t kPage = 4096, kLine = 1024;
  const size_t room = kPage - (static_cast<size_t>(file_.size()) + json.size() + 1) % kPage;
  file_.write(json + std::string(room < kLine ? room : 0, ' ') + "\n");
}

void MetricsFile::flush() { file_.flush(); }

void MetricsFile::close(bool) { file_.close(); }

}  // namespace ddp
