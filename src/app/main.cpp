// One process per rank: mpirun -np N ddp_train. All ranks end in the same order: close files, barrier, finalise MPI,
// exit.
#include "app/commands/doctor/start.h"
#include "app/commands/evaluate/evaluate.h"
#include "app/commands/export/export.h"
#include "app/commands/plan/plan.h"
#include "app/commands/predict/predict.h"
#include "app/commands/report/report.h"
#include "app/commands/show_model/show_model.h"
#include "app/commands/tokenize/tokenize.h"
#include "app/commands/watch/watch.h"
#include "app/run/run.h"
#include "checkpoint/inspect.h"
#include "comm/mpi/launcher.h"
#include "core/log.h"
#include "health/abort.h"
#include "health/signals.h"

#include <fcntl.h>
#include <unistd.h>

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
  const std::string command = arguments.empty() ? "" : arguments[0];
  const auto rest = std::span(arguments).subspan(command.empty() ? 0 : 1);
  try {
    if (command == "evaluate")
      return ddp::abort_on_error(session, [&] { return ddp::evaluate(session, signals, rest); });
    if (command == "predict")
      return ddp::abort_on_error(session,
                                 [&] { return ddp::predict_on_ranks(rest, std::cin, stdout, session, signals); });
    return ddp::abort_on_error(session, [&] { return ddp::run(session, signals, argc, argv, std::move(limit)); });
  } catch (const ddp::ReportedError& e) {
    return e.code();
  } catch (const ddp::Error& e) {  // all ranks have this error
    if (session.rank() == 0) ddp::print_error(e.what(), -1);
    return e.code();
  } catch (const std::exception& e) {
    return ddp::print_exception(e, -1);
  }
}

bool on_several_ranks() {
  const auto expected = ddp::expected_world(ddp::environment_of_process());
  return expected && expected->ranks > 1;
}

// The commands that run without MPI. None if the arguments are not those of such a command.
std::optional<int> run_without_mpi(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return std::nullopt;
  const std::string& command = arguments[0];
  const auto rest = std::span(arguments).subspan(1);
  try {
    if (command == "predict" && !on_several_ranks()) return static_cast<int>(ddp::predict(rest, std::cin, stdout));
    if (command == "export") return static_cast<int>(ddp::export_network(rest, stdout));
    if (command == "plan") return static_cast<int>(ddp::plan_cluster(rest, stdout));
    if (command == "report") return static_cast<int>(ddp::write_report(rest, stdout));
    if (command == "show-model") return static_cast<int>(ddp::show_model(rest, stdout));
    if (command == "tokenize") return static_cast<int>(ddp::tokenize(rest, stdout));
    if (command == "watch") return static_cast<int>(ddp::watch(rest));
    if (command != "inspect") return std::nullopt;
    ddp::write_output(stdout, ddp::inspect(rest), "the contents");
    return 0;
  } catch (const std::exception& e) {
    return static_cast<int>(ddp::print_exception(e, -1));
  }
}

// A file that is opened later would get the number of a standard stream that is closed, and with it the messages. What
// is written to such a stream fails.
void open_standard_streams() {
  int file = STDIN_FILENO;
  while (file >= 0 && file <= STDERR_FILENO) file = ::open("/dev/null", O_RDONLY);
  if (file >= 0) ::close(file);
}

// An error that no one catches, such as one of a thread, ends the job like any other error.
[[noreturn]] void end_uncaught() noexcept {
  ddp::Exit code = ddp::Exit::internal;
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
    ddp::print_error("std::terminate without an exception", -1);
  } catch (const std::exception& e) {
    code = ddp::print_exception(e, -1);
  } catch (...) {
    ddp::print_error("an exception of an unknown type", -1);
  }
  ddp::MpiSession::abort(code);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  std::set_terminate(end_uncaught);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (const auto code = run_without_mpi(arguments)) return *code;
  ddp::die_with_launcher();
  std::optional<ddp::Signals> signals;
  Limit limit;
  std::optional<ddp::MpiSession> session;
  try {
    signals.emplace();
    if (const auto refused = ddp::doctor::refuse_before_mpi(argc, argv)) return static_cast<int>(*refused);
    ddp::doctor::stay_off_network();
    limit = ddp::doctor::startup_limit(argc, argv);
    session.emplace(argc, argv);
  } catch (const std::exception& e) {
    const ddp::Error error = ddp::as_error(e);
    ddp::doctor::report_startup_error(error, signals ? &*signals : nullptr, argc, argv);
    return static_cast<int>(error.code());
  }
  signals->on_second_request([&](int signal, const std::string& line) {
    std::this_thread::sleep_for(ddp::report_delay(session->rank()));
    if (ddp::job_has_failed(*session)) return;  // mpirun ends the other ranks
    ddp::print_error(line, session->rank());
    session->end(static_cast<ddp::Exit>(128 + signal), line);
  });
  const ddp::Exit code = run_in(*session, *signals, argc, argv, std::move(limit));
  signals->on_second_request({});
  session.reset();
  return static_cast<int>(code);
}
