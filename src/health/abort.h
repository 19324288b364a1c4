// Ends a job on an error, with one message from all ranks together.
#pragma once

#include "comm/mpi/session.h"
#include "core/error.h"

#include <chrono>
#include <exception>
#include <string_view>
#include <thread>

namespace ddp {

// Prints "ddp_train: [rank N] error: ..." to stderr, without the rank where `rank` is negative. Never throws.
void print_error(std::string_view what, int rank) noexcept;

// Prints the error that the exception stands for, and returns its exit code (as_error). Never throws.
Exit print_exception(const std::exception& exception, int rank) noexcept;

// Whether another rank has ended or died. Errors on this rank are then consequences, not the cause.
bool job_has_failed(MpiSession& session);

// Prints the error, unless another rank has ended with a message, and aborts the job on all ranks.
[[noreturn]] void abort_job(MpiSession& session, std::string_view what, Exit code);

// The delay before `rank` reports an error that several ranks may have at the same time: 0.7 s for each lower rank, up
// to 8. The first rank to report ends the job, so that up to nine ranks print one message.
std::chrono::milliseconds report_delay(int rank);

// The delay before this rank reports a failure of its transport: report_delay() of its rank, and 4 s more after a
// suspension, because the other ranks have then reported it, and mpirun ends this rank.
std::chrono::milliseconds transport_report_delay(MpiSession& session);

// Runs `work`, which communicates, and returns its result. An error of this rank alone aborts the job here, before
// stack unwinding frees memory that other ranks or the device still use. A CollectiveError, which all ranks have, and
// any error in a world of one rank are thrown on. `delay`: the delay before other errors than Exit::communication are
// reported.
template <class Work>
auto abort_on_error(MpiSession& session, Work work, std::chrono::milliseconds delay = {}) -> decltype(work()) {
  try {
    return work();
  } catch (const CollectiveError&) {
    throw;
  } catch (const std::exception& e) {
    if (session.size() == 1) throw;
    const Error error = as_error(e);
    // A failed transport fails on many ranks at once.
    std::this_thread::sleep_for(error.code() == Exit::communication ? transport_report_delay(session) : delay);
    abort_job(session, error.what(), error.code());
  }
}

// For the handler of an error, where stack unwinding waits for the device, perhaps for ever. Aborts the job where
// abort_on_error() would. Else rank 0 prints the error, and each rank throws it as ReportedError.
[[noreturn]] void report_before_unwinding(MpiSession& session);

}  // namespace ddp
