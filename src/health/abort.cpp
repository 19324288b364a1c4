#include "health/abort.h"

#include "core/log.h"
#include "core/stopwatch.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>

namespace ddp {
namespace {

bool any_other(const MpiSession& session, const std::function<bool(int rank)>& holds) {
  for (int rank = 0; rank < session.size(); ++rank)
    if (rank != session.rank() && holds(rank)) return true;
  return false;
}

}  // namespace

void print_error(std::string_view what, int rank) noexcept {
  draw_status(nullptr);  // the process ends
  try {
    const std::string where = rank < 0 ? "" : fmt::format("[rank {}] ", rank);
    write_text(stderr, fmt::format("ddp_train: {}error: {}\n", where, what));
  } catch (const std::exception&) {  // no memory for the line
    for (const std::string_view part : {std::string_view("ddp_train: error: "), what, std::string_view("\n")})
      write_text(stderr, part);
  }
}

Exit print_exception(const std::exception& exception, int rank) noexcept {
  const Error error = as_error(exception);
  print_error(error.what(), rank);
  return error.code();
}

std::chrono::milliseconds report_delay(int rank) { return std::min(rank, 8) * std::chrono::milliseconds(700); }

std::chrono::milliseconds transport_report_delay(MpiSession& session) {
  constexpr int64_t kRecent_ns = 5'000'000'000;
  HeartbeatTable& heartbeats = session.heartbeats();
  heartbeats.sign_of_life();  // the watchdog may not have run since
  const bool suspended = heartbeats.awake_since_ns() > 0 && steady_ns() - heartbeats.awake_since_ns() < kRecent_ns;
  return report_delay(session.rank()) + std::chrono::seconds(suspended ? 4 : 0);
}

bool job_has_failed(MpiSession& session) {
  const HeartbeatTable& heartbeats = session.heartbeats();
  return any_other(session, [&](int rank) { return heartbeats.left(rank) || heartbeats.dead(rank); });
}

void abort_job(MpiSession& session, std::string_view what, Exit code) {
  const HeartbeatTable& heartbeats = session.heartbeats();
  if (!any_other(session, [&](int rank) { return heartbeats.left(rank); })) print_error(what, session.rank());
  session.end(code, what);
}

void report_before_unwinding(MpiSession& session) {
  std::optional<Error> error;
  try {
    abort_on_error(session, [] { throw; });
  } catch (const std::exception& e) {
    error = as_error(e);
  }
  if (session.rank() == 0) print_error(error.value().what(), -1);
  throw ReportedError(error.value());
}

}  // namespace ddp
