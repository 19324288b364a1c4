#include "core/error.h"

#include "core/control_group.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <system_error>

namespace ddp {
namespace {

constexpr const char* kUseLess = "use a smaller --batch-size, or fewer --threads, --workers or ranks on this host";

// A constant that is made before main, because later there may be no memory for it.
const Error kOutOfMemory(Exit::device, fmt::format("out of memory; {}", kUseLess));

std::string out_of_memory() {
  std::string text =
      fmt::format("out of memory: the limit of the control group or of the machine is {} MiB", memory_limit() >> 20);
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    text += fmt::format(", that of each process {} MiB (ulimit -v)", limit.rlim_cur >> 20);
  return text + "; " + kUseLess;
}

Error described(const std::exception& exception) {
  if (const auto* const error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception)) return {Exit::device, out_of_memory()};
  const auto* const system = dynamic_cast<const std::system_error*>(&exception);
  if (system && system->code() == std::errc::resource_unavailable_try_again)  // of std::thread
    return {Exit::device, fmt::format("cannot start a thread: {}; raise the limit of the user (ulimit -u) or of the "
                                      "container (pids.max), or use fewer --threads, --workers or ranks on this host",
                                      system->code().message())};
  return {Exit::internal, exception.what()};
}

}  // namespace

Error as_error(const std::exception& exception) noexcept {
  try {
    return described(exception);
  } catch (const std::exception&) {
    return kOutOfMemory;
  }
}

std::string errno_text(int error) {
  std::string text = std::strerror(error);
  rlimit limit{};
  if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
    text += fmt::format(" (this process may open {}: raise the limit, ulimit -n)", limit.rlim_cur);
  return text;
}

void fail_expectation(const char* file, int line, const char* condition) {
  fail(Exit::internal, "{}:{}: expected {}", file, line, condition);
}

}  // namespace ddp
