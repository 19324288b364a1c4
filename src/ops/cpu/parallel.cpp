#include "ops/cpu/parallel.h"

#include <omp.h>

#include <exception>

namespace ddp {

void Workers::run(int64_t count, void (*item)(void*, int64_t), void* context) const {
  if (threads == 1 || count < 2) {
    for (int64_t i = 0; i < count; ++i) {
      item(context, i);
      device.poll();
    }
    return;
  }
  std::exception_ptr error;  // of a poll: nothing may leave the region by throwing
#pragma omp parallel num_threads(threads)
  {
    const int64_t thread = omp_get_thread_num(), team = omp_get_num_threads();
    for (int64_t i = count * thread / team; i < count * (thread + 1) / team; ++i) {
      item(context, i);
      if (thread != 0 || error) continue;
      try {
        device.poll();
      } catch (...) {
        error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace ddp
