// Runs a function on every rank of a local world, each rank in its own thread.
#pragma once

#include "comm/local/communicator.h"

#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace ddp {

// Returns the exception of each rank, or null. A rank's communicator is destroyed when its function ends.
inline std::vector<std::exception_ptr> try_ranks(int size, const std::function<void(Communicator&)>& function) {
  auto world = make_local_communicators(size);
  std::vector<std::exception_ptr> thrown(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank, communicator = std::move(world[rank])]() mutable {
      try {
        function(*communicator);
      } catch (...) {
        thrown[rank] = std::current_exception();
      }
      communicator.reset();
    });
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

// Rethrows the exception of the lowest rank that failed.
inline void run_ranks(int size, const std::function<void(Communicator&)>& function) {
  for (const std::exception_ptr& e : try_ranks(size, function))
    if (e) std::rethrow_exception(e);
}

}  // namespace ddp
