// One process per rank: mpirun -np N ddp_train. All ranks end in the same order: close files, barrier, finalise MPI,
// exit.
#include "app/doctor/start.h"
#include "app/evaluate/evaluate.h"
#include "app/predict/predict.h"
#include "app/run.h"
#include "checkpoint/inspect.h"
#include "health/abort.h"
#include "health/signals.h"

#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Limit = std::unique_ptr<ddp::doctor::TimeLimit>;

ddp::Exit run_in(ddp::MpiSession& session, ddp::Signals& signals, int argc, char** argv, Limit limit) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool evaluates = !arguments.empty() && arguments[0] == "evaluate";
  try {
    if (evaluates)
      return ddp::abort_on_error(session,
                                 [&] { return ddp::evaluate(session, signals, std::span(arguments).subspan(1)); });
    return ddp::abort_on_error(session, [&] { return ddp::run(session, signals, argc, argv, std::move(limit)); });
  } catch (const ddp::Error& e) {  // all ranks have this error
    if (session.rank() == 0) ddp::print_error(e.what(), -1);
    return e.code();
  } catch (const std::exception& e) {
    ddp::print_error(e.what(), -1);
    return ddp::Exit::internal;
  }
}

// The commands that run without MPI. None if the arguments are not those of such a command.
std::optional<int> run_without_mpi(const std::vector<std::string>& arguments) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  if (command != "inspect" && command != "predict") return std::nullopt;
  const auto rest = std::span(arguments).subspan(1);
  try {
    if (command == "predict") return static_cast<int>(ddp::predict(rest, std::cin, stdout));
    fmt::print("{}", ddp::inspect(rest));
    return 0;
  } catch (const ddp::Error& e) {
    ddp::print_error(e.what(), -1);
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    ddp::print_error(e.what(), -1);
    return static_cast<int>(ddp::Exit::internal);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (const auto code = run_without_mpi(arguments)) return *code;
  ddp::die_with_launcher();
  ddp::Signals signals;
  Limit limit;
  std::optional<ddp::MpiSession> session;
  try {
    if (const auto refused = ddp::doctor::refuse_before_mpi(argc, argv)) return static_cast<int>(*refused);
    ddp::doctor::choose_transport();
    limit = ddp::doctor::startup_limit(argc, argv);
    session.emplace(argc, argv);
  } catch (const ddp::Error& e) {
    ddp::doctor::report_startup_error(e, argc, argv);
    return static_cast<int>(e.code());
  }
  signals.on_second_request([&](int signal, const std::string& line) {
    std::this_thread::sleep_for(ddp::report_delay(session->rank()));
    if (ddp::job_has_failed(*session)) return;  // mpirun ends the other ranks
    ddp::print_error(line, session->rank());
    session->end(static_cast<ddp::Exit>(128 + signal), line);
  });
  const ddp::Exit code = run_in(*session, signals, argc, argv, std::move(limit));
  signals.on_second_request({});
  session.reset();
  return static_cast<int>(code);
}
