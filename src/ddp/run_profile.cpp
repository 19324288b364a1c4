#include "ddp/run_profile.h"

#include "core/error.h"
#include "core/json_reader.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

using nlohmann::json;

constexpr int64_t kProfileFormat = 1;
constexpr int64_t kMostRanks = 1 << 20, kMostSamples = int64_t{1} << 40, kMostElements = int64_t{1} << 45;
constexpr int64_t kMostParameters = 10'000;
constexpr double kLongestMs = 1e9, kMostBytes = 1e18, kWorstSpread = 1e6, kLeastShare = 1e-9;
constexpr double kShortestMs = 1e-6, kLeastSpread = 1e-6;  // of computing: predictions divide by it

// An object of the profile. Each message names its key.
class ProfileReader {
 public:
  ProfileReader(const json& object, std::string subject, std::string prefix = "")
      : object_(object), subject_(std::move(subject)), prefix_(std::move(prefix)) {
    require(object.is_object(), Exit::data, "{}: {} is not an object", subject_,
            prefix_.empty() ? "the profile" : prefix_);
  }

  const json& at(const char* key) const {
    const auto found = object_.find(key);
    require(found != object_.end(), Exit::data, "{} has no \"{}{}\"", subject_, prefix_, key);
    return *found;
  }
  double number(const char* key, double most) const { return number_of(at(key), key, 0, most); }
  double duration(const char* key) const { return number_of(at(key), key, kShortestMs, kLongestMs); }
  double number_of(const json& value, const char* key, double least, double most) const {
    const double number = value.is_number() ? value.get<double>() : NAN;
    require(number >= least && number <= most, Exit::data, "{}: \"{}{}\" must be a number from {} to {}", subject_,
            prefix_, key, least, most);
    return number;
  }
  int64_t count(const char* key, int64_t least, int64_t most) const { return count_of(at(key), key, least, most); }
  int64_t count_of(const json& value, const char* key, int64_t least, int64_t most) const {
    const double number = number_of(value, key, static_cast<double>(least), static_cast<double>(most));
    require(number == std::floor(number), Exit::data, "{}: \"{}{}\" must be a whole number", subject_, prefix_, key);
    return static_cast<int64_t>(number);
  }
  bool flag(const char* key) const {
    require(at(key).is_boolean(), Exit::data, "{}: \"{}{}\" must be true or false", subject_, prefix_, key);
    return at(key).get<bool>();
  }
  std::string text(const char* key) const {
    require(at(key).is_string(), Exit::data, "{}: \"{}{}\" must be a text", subject_, prefix_, key);
    return at(key).get<std::string>();
  }
  const json& list(const char* key, int64_t least, int64_t most) const {
    const json& value = at(key);
    const auto size = value.is_array() ? static_cast<int64_t>(value.size()) : -1;
    require(size >= least && size <= most, Exit::data, "{}: \"{}{}\" must be a list of {} to {} values", subject_,
            prefix_, key, least, most);
    return value;
  }
  ProfileReader object(const char* key) const { return {at(key), subject_, prefix_ + key + "."}; }
  void check(bool holds, const char* key, const char* rule) const {
    require(holds, Exit::data, "{}: \"{}{}\" {}", subject_, prefix_, key, rule);
  }

 private:
  const json& object_;
  const std::string subject_, prefix_;
};

StepCosts read_costs(const ProfileReader& reader, size_t parameters) {
  StepCosts costs;
  for (const json& value : reader.list("ready_ms", 1, kMostParameters))
    costs.ready_ms.push_back(reader.number_of(value, "ready_ms", 0, kLongestMs));
  reader.check(costs.ready_ms.size() == parameters, "ready_ms", "must have a value for each parameter");
  reader.check(std::ranges::is_sorted(costs.ready_ms), "ready_ms", "must not fall");
  costs.compute_ms = reader.duration("compute_ms");
  reader.check(costs.compute_ms >= costs.ready_ms.back(), "compute_ms", "must not be less than the last \"ready_ms\"");
  costs.link = {.latency_ms = reader.number("link_latency_ms", kLongestMs),
                .ms_per_mib = reader.number("link_ms_per_mib", kLongestMs)};
  costs.bucket_ms = reader.number("bucket_ms", kLongestMs);
  return costs;
}

std::vector<Quantile> read_spread(const ProfileReader& reader) {
  std::vector<Quantile> spread;
  for (const json& pair : reader.list("spread", 2, 1000)) {
    reader.check(pair.is_array() && pair.size() == 2, "spread", "must have pairs of numbers");
    spread.push_back({.share = reader.number_of(pair[0], "spread", 0, 1),
                      .value = reader.number_of(pair[1], "spread", 0, kWorstSpread)});
  }
  for (size_t i = 1; i < spread.size(); ++i)
    reader.check(spread[i].share - spread[i - 1].share >= kLeastShare && spread[i].value >= spread[i - 1].value,
                 "spread", "must ascend");
  reader.check(spread.front().share == 0 && spread.back().share == 1, "spread", "must go from share 0 to share 1");
  reader.check(spread.back().value >= kLeastSpread, "spread", "must have times above 0");
  return spread;
}

}  // namespace

std::string to_json(const RunProfile& p) {
  json spread = json::array();
  for (const Quantile& q : p.spread) spread.push_back({q.share, q.value});
  const nlohmann::ordered_json profile{{"format", kProfileFormat},
                                       {"network", p.network},
                                       {"device", p.device},
                                       {"precision", p.precision},
                                       {"on_gpu", p.on_gpu},
                                       {"ranks", p.ranks},
                                       {"hosts", p.hosts},
                                       {"ranks_per_host", p.ranks_per_host},
                                       {"batch", p.batch},
                                       {"shard", p.shard},
                                       {"micro_batches", p.micro_batches},
                                       {"zero", p.zero},
                                       {"computes_with_collectives", p.computes_with_collectives},
                                       {"trailer", p.trailer},
                                       {"gradient_bytes", p.gradient_bytes},
                                       {"compute_ms", p.compute_ms},
                                       {"data_ms", p.data_ms},
                                       {"read_ms", p.read_ms},
                                       {"workers", p.workers},
                                       {"noise_scale", p.noise_scale ? json(*p.noise_scale) : json()},
                                       {"memory",
                                        {{"weights", p.memory.weights},
                                         {"gradients", p.memory.gradients},
                                         {"optimizer", p.memory.optimizer},
                                         {"activations", p.memory.activations}}},
                                       {"spread", spread},
                                       {"costs",
                                        {{"compute_ms", p.costs.compute_ms},
                                         {"link_latency_ms", p.costs.link.latency_ms},
                                         {"link_ms_per_mib", p.costs.link.ms_per_mib},
                                         {"bucket_ms", p.costs.bucket_ms},
                                         {"ready_ms", p.costs.ready_ms}}},
                                       {"parameters", p.parameters}};
  return profile.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

RunProfile profile_from(std::string_view text, const std::string& subject) {
  const json root = read_json(text, subject, {.bytes = 1 << 23, .values = 3 * kMostParameters});
  const ProfileReader reader(root, subject);
  const int64_t format = reader.count("format", 1, kMostSamples);
  require(format == kProfileFormat, Exit::data, "{} has the format {}; this program reads {}: run the training again",
          subject, format, kProfileFormat);
  RunProfile p{.network = reader.text("network"),
               .device = reader.text("device"),
               .precision = reader.text("precision"),
               .on_gpu = reader.flag("on_gpu"),
               .ranks = reader.count("ranks", 1, kMostRanks),
               .hosts = reader.count("hosts", 1, kMostRanks),
               .ranks_per_host = reader.count("ranks_per_host", 1, kMostRanks),
               .batch = reader.count("batch", 1, kMostSamples),
               .shard = reader.count("shard", 1, kMostSamples),
               .micro_batches = reader.count("micro_batches", 1, kMostSamples),
               .zero = reader.flag("zero"),
               .computes_with_collectives = reader.flag("computes_with_collectives"),
               .parameters = {},
               .trailer = reader.count("trailer", 0, kMostElements),
               .gradient_bytes = reader.count("gradient_bytes", 1, 8),
               .costs = {},
               .compute_ms = reader.duration("compute_ms"),
               .spread = read_spread(reader),
               .data_ms = reader.number("data_ms", kLongestMs),
               .read_ms = reader.number("read_ms", kLongestMs),
               .workers = reader.count("workers", 1, kMostRanks),
               .memory = {}};
  reader.check(p.hosts <= p.ranks && p.ranks_per_host <= p.ranks && p.hosts * p.ranks_per_host >= p.ranks, "ranks",
               "do not fit \"hosts\" and \"ranks_per_host\"");
  reader.check(p.shard <= p.batch, "shard", "must not exceed \"batch\"");
  reader.check(p.micro_batches <= kMostSamples / p.shard, "micro_batches", "must have fewer samples");
  int64_t elements = 0;
  for (const json& value : reader.list("parameters", 1, kMostParameters)) {
    p.parameters.push_back(reader.count_of(value, "parameters", 1, kMostElements));
    elements += p.parameters.back();
    reader.check(elements <= kMostElements, "parameters", "have too many elements");
  }
  p.costs = read_costs(reader.object("costs"), p.parameters.size());
  const ProfileReader memory = reader.object("memory");
  p.memory = {.weights = memory.number("weights", kMostBytes),
              .gradients = memory.number("gradients", kMostBytes),
              .optimizer = memory.number("optimizer", kMostBytes),
              .activations = memory.number("activations", kMostBytes)};
  if (!reader.at("noise_scale").is_null()) {
    p.noise_scale = reader.number("noise_scale", 1e15);
    reader.check(*p.noise_scale > 0, "noise_scale", "must be above 0");
  }
  return p;
}

}  // namespace ddp
