// How a run ends on an error: with one message.
#pragma once

#include "comm/mpi/session.h"
#include "core/error.h"

#include <chrono>
#include <string>
#include <thread>

namespace ddp {

// "ddp_train: error: ..." on stderr, marked with the rank where `rank` is not negative.
void print_error(const std::string& what, int rank);

// Whether another rank has ended, with or without a word: then what happens here is no cause any more.
bool job_has_failed(MpiSession& session);

// Prints, unless another rank has ended with a message, and ends the job on all ranks at once.
[[noreturn]] void abort_job(MpiSession& session, const std::string& what, Exit code);

// How long a rank holds back with an error that others may have at the same time: the first to speak ends the job, so
// that of up to nine ranks only one is heard.
std::chrono::milliseconds report_delay(int rank);

// Does work that communicates. An error of this rank alone ends the job here, before anything that the others or the
// device still use is given back; a world of one rank, and an error that all ranks share, leave in order.
template <class Work>
auto abort_on_error(MpiSession& session, Work work, std::chrono::milliseconds delay = {}) -> decltype(work()) {
  try {
    return work();
  } catch (const CollectiveError&) {
    throw;
  } catch (const Error& e) {
    if (session.size() == 1) throw;
    // A transport that fails does so on many ranks.
    std::this_thread::sleep_for(e.code() == Exit::communication ? report_delay(session.rank()) : delay);
    abort_job(session, e.what(), e.code());
  } catch (const std::exception& e) {
    if (session.size() == 1) throw;
    std::this_thread::sleep_for(delay);
    abort_job(session, e.what(), Exit::internal);
  }
}

}  // namespace ddp
