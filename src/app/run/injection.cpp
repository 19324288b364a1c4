#include "app/run/injection.h"

#include "core/error.h"

namespace ddp {

std::optional<FaultInjection> injection_of(const std::string& text, int world) {
  if (text.empty()) return std::nullopt;
  const FaultInjection injection = parse_fault_injection(text);
  require(!injection.rank || *injection.rank < world, Exit::usage, "--inject {}: there are {} ranks", text, world);
  return injection;
}

void require_it_happens(const FaultInjection& injection, const std::string& text, const SaveEvery& save_every,
                        int64_t done, int64_t total) {
  using Kind = FaultInjection::Kind;
  const bool lasts = injection.kind == Kind::slow || injection.kind == Kind::enospc;  // from its step on
  require((lasts || injection.step > done) && injection.step <= total, Exit::usage,
          "--inject {}: this run does the steps from {} to {}", text, done + 1, total);
  require(injection.kind != Kind::enospc || !save_every.never(), Exit::usage, "--inject {} excludes --save-every never",
          text);
}

}  // namespace ddp
