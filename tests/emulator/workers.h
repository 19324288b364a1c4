// Threads for work that may wait for other threads. They are made as needed and kept.
#pragma once

#include <functional>

namespace emulator {

void run_on_worker(std::function<void()> work);

}  // namespace emulator
