#include "app/run/kept_buckets.h"

#include "core/error.h"
#include "core/json_reader.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddp {
namespace {

constexpr const char *kBegins = "begins", *kReady = "ready_ms", *kCompute = "compute_ms", *kLatency = "latency_ms",
                     *kPerMib = "ms_per_mib", *kBucket = "bucket_ms";

bool is_measured_ms(const nlohmann::json& value) {
  constexpr double kMost = 1e9;
  return value.is_number() && value.get<double>() >= 0 && value.get<double>() <= kMost;
}

bool is_id_below(const nlohmann::json& value, int64_t parameters) {
  return value.is_number_unsigned() && value.get<uint64_t>() < static_cast<uint64_t>(parameters);
}

bool has_kept_shape(const nlohmann::json& kept, int64_t parameters) {
  const auto list = [&](const char* name) { return kept.contains(name) && kept[name].is_array(); };
  const auto time = [&](const char* name) { return kept.contains(name) && is_measured_ms(kept[name]); };
  return kept.is_object() && list(kBegins) && list(kReady) && time(kCompute) && time(kLatency) && time(kPerMib) &&
         time(kBucket) && std::cmp_equal(kept[kReady].size(), parameters) &&
         std::ranges::all_of(kept[kReady], is_measured_ms) &&
         std::ranges::all_of(kept[kBegins], [&](const auto& id) { return is_id_below(id, parameters); });
}

}  // namespace

std::string kept_text(const BucketPlan& plan, const StepCosts& costs) {
  return nlohmann::json{{kBegins, plan.begins()},         {kReady, costs.ready_ms},
                        {kCompute, costs.compute_ms},     {kLatency, costs.link.latency_ms},
                        {kPerMib, costs.link.ms_per_mib}, {kBucket, costs.bucket_ms}}
      .dump();
}

std::optional<KeptBuckets> kept_buckets_from(const std::string& text, int64_t parameters) try {
  const nlohmann::json json = read_json(text, "the buckets of the checkpoint", {.bytes = 1 << 20, .values = 50'000});
  if (!has_kept_shape(json, parameters)) return std::nullopt;
  KeptBuckets kept{
      .begins = json[kBegins].get<std::vector<ParameterId>>(),
      .costs = {.ready_ms = json[kReady].get<std::vector<double>>(),
                .compute_ms = json[kCompute].get<double>(),
                .link = {.latency_ms = json[kLatency].get<double>(), .ms_per_mib = json[kPerMib].get<double>()},
                .bucket_ms = json[kBucket].get<double>()}};
  const StepCosts& costs = kept.costs;
  const bool possible = possible_begins(kept.begins, parameters) && std::ranges::is_sorted(costs.ready_ms) &&
                        (costs.ready_ms.empty() || costs.ready_ms.back() <= costs.compute_ms);
  return possible ? std::optional(kept) : std::nullopt;
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace ddp
