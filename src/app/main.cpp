// One process per rank: mpirun -np N ddp_train. All ranks come here, and leave in the same order: files closed,
// barrier, MPI finalised, exit.
#include "app/fatal.h"
#include "app/run.h"

#include <exception>
#include <optional>

namespace {

ddp::Exit run_in(ddp::MpiSession& session, int argc, char** argv) {
  try {
    ddp::or_end_job(session, [&] { ddp::run(session, argc, argv); });
    return ddp::Exit::done;
  } catch (const ddp::Error& e) {  // all ranks have it
    if (session.rank() == 0) ddp::print_error(e.what(), -1);
    return e.code();
  } catch (const std::exception& e) {
    ddp::print_error(e.what(), -1);
    return ddp::Exit::internal;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<ddp::MpiSession> session;
  try {
    session.emplace(argc, argv);
  } catch (const ddp::Error& e) {
    ddp::print_error(e.what(), -1);
    return static_cast<int>(e.code());
  }
  const ddp::Exit code = run_in(*session, argc, argv);
  session.reset();
  return static_cast<int>(code);
}
