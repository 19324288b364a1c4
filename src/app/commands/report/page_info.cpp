#include "app/commands/report/page_info.h"

#include <fmt/chrono.h>

#include <ctime>
#include <random>

namespace ddp {

report::PageInfo page_info() {
  std::random_device random;
  return {.version = DDP_VERSION,
          .time = fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr))),
          .nonce = fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random())};
}

}  // namespace ddp
