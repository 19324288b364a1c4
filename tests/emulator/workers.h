// Worker threads for work that may wait for other threads. They are created on demand and reused.
#pragma once

#include <functional>

namespace emulator {

void run_on_worker(std::function<void()> work);

}  // namespace emulator
