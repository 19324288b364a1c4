#include "health/abort.h"

#include <algorithm>
#include <cstdio>
#include <functional>

namespace ddp {
namespace {

bool any_other(const MpiSession& session, const std::function<bool(int rank)>& holds) {
  for (int rank = 0; rank < session.size(); ++rank)
    if (rank != session.rank() && holds(rank)) return true;
  return false;
}

}  // namespace

void print_error(const std::string& what, int rank) {
  const std::string where = rank < 0 ? "" : fmt::format("[rank {}] ", rank);
  fmt::print(stderr, "ddp_train: {}error: {}\n", where, what);
  std::fflush(stderr);
}

std::chrono::milliseconds report_delay(int rank) { return std::min(rank, 8) * std::chrono::milliseconds(700); }

bool job_has_failed(MpiSession& session) {
  const HeartbeatTable& heartbeats = session.heartbeats();
  return any_other(session, [&](int rank) { return heartbeats.left(rank) || heartbeats.dead(rank); });
}

void abort_job(MpiSession& session, const std::string& what, Exit code) {
  const HeartbeatTable& heartbeats = session.heartbeats();
  if (!any_other(session, [&](int rank) { return heartbeats.left(rank); })) print_error(what, session.rank());
  session.end(code, what);
}

}  // namespace ddp
