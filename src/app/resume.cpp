#include "app/resume.h"

#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

namespace ddp {
namespace {

using Named = std::map<std::string, std::string>;

constexpr std::string_view kMathematics[] = {"model",
                                             "dataset",
                                             "train-samples",
                                             "batch-size",
                                             "accumulate",
                                             "seed",
                                             "label-smoothing",
                                             "clip-grad-norm",
                                             "sync-bn",
                                             "optimizer",
                                             "momentum",
                                             "nesterov",
                                             "weight-decay",
                                             "decay",
                                             "no-decay-bias-norm",
                                             "adam-beta1",
                                             "adam-beta2",
                                             "adam-epsilon",
                                             "lars-trust",
                                             "lr",
                                             "lr-scale",
                                             "lr-base-batch",
                                             "lr-scheduler",
                                             "lr-step-size",
                                             "lr-milestones",
                                             "lr-gamma",
                                             "lr-min",
                                             "lr-warmup-epochs",
                                             "lr-warmup-method",
                                             "lr-warmup-decay"};
constexpr std::string_view kBits[] = {"rank-weights", "allreduce",  "conv", "transport",
                                      "nccl-algo",    "grad-dtype", "zero", "deterministic"};

constexpr const char* kParts[] = {"world size", "--rank-weights"};

template <class Names>
Named chosen(const Options& options, const Names& names) {
  Named found;
  for (const std::string_view name : names)
    if (const auto option = options.named.find(std::string(name));
        option != options.named.end() && option->second != "false")  // a flag that is not set
      found["--" + option->first] = option->second;
  return found;
}

bool same_value(const std::string& a, const std::string& b) {
  const auto whole = [](const std::string& text) { return text.find_first_not_of("0123456789") == text.npos; };
  if (a == b || (whole(a) && whole(b))) return a == b;
  char *end_a = nullptr, *end_b = nullptr;
  const double number_a = std::strtod(a.c_str(), &end_a), number_b = std::strtod(b.c_str(), &end_b);
  return !a.empty() && !b.empty() && *end_a == 0 && *end_b == 0 && number_a == number_b;
}

std::string kept_in(const Named& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "not set" : found->second;
}

// "lr was 0.1, is 0.2" for each name that has another value.
std::vector<std::string> differences(const Named& saved, const Named& now) {
  std::set<std::string> names;
  for (const Named* values : {&saved, &now})
    for (const auto& [name, value] : *values) names.insert(name);
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    const std::string before = kept_in(saved, name), after = kept_in(now, name);
    if (!same_value(before, after)) texts.push_back(fmt::format("{} was {}, is {}", name, before, after));
  }
  return texts;
}

}  // namespace

Named mathematics_of(const Options& options) {
  Named found = chosen(options, kMathematics);
  const ScheduleDesc::Kind kind = options.schedule.kind;
  if (kind == ScheduleDesc::Kind::cosine || kind == ScheduleDesc::Kind::linear)
    found["--epochs"] = fmt::format("{}", options.epochs);  // the rate falls until then
  return found;
}

Named bits_of(const Options& options) {
  Named found = chosen(options, kBits);
  found["version"] = DDP_VERSION;
  return found;
}

void require_same_mathematics(const RunState& saved, const RunState& now, const std::string& checkpoint) {
  const std::vector<std::string> changed = differences(saved.affects_results, now.affects_results);
  require(changed.empty(), Exit::usage,
          "{} cannot be resumed by this run: {}; give what it was, or begin a new run with its weights by --init-from",
          checkpoint, fmt::join(changed, "; "));
}

bool same_parts(const RunState& saved, const RunState& now) {
  return std::ranges::all_of(kParts, [&](const char* name) {
    return kept_in(saved.affects_rounding, name) == kept_in(now.affects_rounding, name);
  });
}

std::string differing_bits(const RunState& saved, const RunState& now) {
  return fmt::format("{}", fmt::join(differences(saved.affects_rounding, now.affects_rounding), "; "));
}

}  // namespace ddp
