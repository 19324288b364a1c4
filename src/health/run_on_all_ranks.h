// Runs local work of the start-up on all ranks and makes them agree on errors.
#pragma once

#include "comm/mpi/session.h"
#include "core/error.h"

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace ddp {

// Runs `work` on every rank and returns its result. Where it throws on any rank, all ranks throw the same
// CollectiveError. `work` contains no collective, so that no rank waits for one that has failed. Collective.
template <class Work>
auto run_on_all_ranks(MpiSession& session, Work work) -> decltype(work()) {
  constexpr bool kReturns = !std::is_void_v<decltype(work())>;
  std::optional<std::conditional_t<kReturns, decltype(work()), std::monostate>> result;
  std::optional<Error> error;
  try {
    if constexpr (kReturns)
      result.emplace(work());
    else
      work();
  } catch (const std::exception& e) {
    error = as_error(e);
  }
  if (const auto agreed = session.agree(error)) throw CollectiveError(*agreed);
  if constexpr (kReturns) return std::move(*result);
}

}  // namespace ddp
