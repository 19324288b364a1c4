#include "app/memory_limit.h"

#include "core/first_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace ddp {

int64_t memory_limit() {
  int64_t limit = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const int64_t bytes = std::strtoll(first_line(file).c_str(), nullptr, 10);  // "max" is 0
    if (bytes > 0) limit = std::min(limit, bytes);
  }
  return limit;
}

}  // namespace ddp
