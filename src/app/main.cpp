// One process per rank: mpirun -np N ddp_train. All ranks come here, and leave in the same order: files closed,
// barrier, MPI finalised, exit.
#include "app/run.h"
#include "core/error.h"

#include <cstdio>
#include <exception>
#include <optional>

namespace {

void print_error(const char* what, int rank, bool shared) {
  const std::string where = shared ? "" : fmt::format("[rank {}] ", rank);
  fmt::print(stderr, "ddp_train: {}error: {}\n", where, what);
  std::fflush(stderr);
}

ddp::Exit run_in(ddp::MpiSession& session, int argc, char** argv) {
  try {
    ddp::run(session, argc, argv);
    return ddp::Exit::done;
  } catch (const ddp::SharedError& e) {
    if (session.rank() == 0) print_error(e.what(), 0, true);
    return e.code();
  } catch (const ddp::Error& e) {
    print_error(e.what(), session.rank(), session.size() == 1);
    if (session.size() == 1) return e.code();
    ddp::MpiSession::abort(e.code());
  } catch (const std::exception& e) {
    print_error(e.what(), session.rank(), session.size() == 1);
    if (session.size() == 1) return ddp::Exit::internal;
    ddp::MpiSession::abort(ddp::Exit::internal);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<ddp::MpiSession> session;
  try {
    session.emplace(argc, argv);
  } catch (const ddp::Error& e) {
    print_error(e.what(), 0, true);
    return static_cast<int>(e.code());
  }
  const ddp::Exit code = run_in(*session, argc, argv);
  session.reset();
  return static_cast<int>(code);
}
