// Parts of the start-up that each rank does for itself: without collectives, so that no rank waits for one that failed.
#pragma once

#include "comm/mpi/session.h"
#include "core/error.h"

#include <optional>
#include <utility>

namespace ddp {

// Runs `work` on every rank; where it fails on any, all ranks throw the same CollectiveError. Collective.
template <class Work>
auto run_on_all_ranks(MpiSession& session, Work work) -> decltype(work()) {
  std::optional<decltype(work())> result;
  std::optional<Error> error;
  try {
    result.emplace(work());
  } catch (const Error& e) {
    error = e;
  } catch (const std::exception& e) {
    error = Error(Exit::internal, e.what());
  }
  if (const auto agreed = session.agree(error)) throw CollectiveError(*agreed);
  return std::move(*result);
}

}  // namespace ddp
