// Errors that end a run, each with the process's exit code. The text names the thing and says what to do.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ddp {

// The documented exit codes, one for each kind of failure.
enum class Exit : int {
  done = 0,
  internal = 1,       // a bug of ours
  usage = 2,          // an unknown option, a bad value, a bad configuration file
  data = 3,           // missing, truncated, corrupt or mismatched data files
  output = 4,         // the output folder cannot be written, or holds another run
  model = 5,          // the model does not fit the data, or the weights do not fit the model
  numerics = 6,       // NaN or infinity in the loss or a gradient
  device = 7,         // the device that was asked for is not there, or fails
  world = 8,          // fewer ranks than the launcher promised
  communication = 9,  // the transport failed, or replicas differ
  stopped = 75,       // saved because asked to stop; please requeue
};

class Error : public std::runtime_error {
 public:
  Error(Exit code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Exit code() const noexcept { return code_; }

 private:
  Exit code_;
};

// Thrown by every rank at the same point with the same text, so that rank 0 alone prints it and all leave in order. Any
// other error is one rank's own, and ends the job from there.
class CollectiveError : public Error {
 public:
  using Error::Error;
  explicit CollectiveError(const Error& error) : Error(error) {}
};

template <class... Args>
[[noreturn]] void fail(Exit code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void require(bool holds, Exit code, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) [[unlikely]]
    fail(code, format, std::forward<Args>(args)...);
}

[[noreturn]] void fail_expectation(const char* file, int line, const char* condition);

}  // namespace ddp

// A precondition between our own parts: a failure is a bug, and names its place.
#define DDP_EXPECT(condition) ((condition) ? void() : ::ddp::fail_expectation(__FILE__, __LINE__, #condition))
