#include "app/commands/doctor/check_runner.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace ddp::doctor {

Finding diagnose_hang(const char* name, double limit_seconds, const std::vector<RankState>& ranks) {
  constexpr double kSilent = 1.5, kNews = 1;  // seconds; news of other hosts comes twice a second
  const auto finding_of = [&](const std::string& problem, const std::string& fix) {
    return with_found({fault(Exit::communication, problem, fix)}, name, "no answer").front();
  };
  const std::string what = fmt::format("the check \"{}\" has not ended within {:g} s", name, limit_seconds);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankState& state = ranks[rank];
    if (state.silent_seconds < kSilent) continue;
    const std::string who = fmt::format("rank {} on {}", rank, state.host);
    if (state.silent_seconds - state.host_silent_seconds < kNews)
      return hint("ping " + state.host, finding_of(fmt::format("{}: no news from host {}", what, state.host), ""));
    if (state.pid == 0)
      return finding_of(fmt::format("{}: {} is stopped", what, who),
                        fmt::format("ssh {} pkill -CONT ddp_train", state.host));
    return finding_of(fmt::format("{}: {} (pid {}) is stopped", what, who, state.pid),
                      fmt::format("kill -CONT {}", state.pid));
  }
  std::vector<std::string> behind;
  int64_t furthest = 0;
  for (const RankState& state : ranks) furthest = std::max(furthest, state.progress);
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].progress < furthest) behind.push_back(fmt::format("rank {} on {}", rank, ranks[rank].host));
  return finding_of(behind.empty() ? what : fmt::format("{}: it waits for {}", what, fmt::join(behind, ", ")),
                    fmt::format("ddp_train --doctor --step-timeout {:g}", 10 * std::max(limit_seconds, 1.0)));
}

}  // namespace ddp::doctor
