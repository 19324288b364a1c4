#include "app/fatal.h"

#include <algorithm>
#include <cstdio>

namespace ddp {

void print_error(const std::string& what, int rank) {
  const std::string where = rank < 0 ? "" : fmt::format("[rank {}] ", rank);
  fmt::print(stderr, "ddp_train: {}error: {}\n", where, what);
  std::fflush(stderr);
}

std::chrono::milliseconds speaking_turn(int rank) { return std::min(rank, 8) * std::chrono::milliseconds(700); }

void end_job(MpiSession& session, const std::string& what, Exit code) {
  print_error(what, session.rank());
  session.end(code);
}

}  // namespace ddp
