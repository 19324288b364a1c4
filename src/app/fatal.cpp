#include "app/fatal.h"

#include <cstdio>

namespace ddp {

void print_error(const std::string& what, int rank) {
  const std::string where = rank < 0 ? "" : fmt::format("[rank {}] ", rank);
  fmt::print(stderr, "ddp_train: {}error: {}\n", where, what);
  std::fflush(stderr);
}

void end_job(const MpiSession& session, const std::string& what, Exit code) {
  print_error(what, session.rank());
  MpiSession::abort(code);
}

}  // namespace ddp
