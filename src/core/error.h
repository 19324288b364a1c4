// Errors that end a run. Each has the exit code of the process and a text that says what is wrong and what to do.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace ddp {

// The documented exit codes, one for each class of failure.
enum class Exit : int {
  done = 0,
  internal = 1,       // a bug in this program
  usage = 2,          // an unknown option, a bad value, a bad configuration file
  data = 3,           // missing, truncated, corrupt or mismatched data files
  output = 4,         // the output folder cannot be written, or holds another run
  model = 5,          // the model does not fit the data, or the weights do not fit the model
  numerics = 6,       // NaN or infinity in the loss or a gradient
  device = 7,         // the requested device is missing or fails; memory, threads or open files are short
  world = 8,          // fewer ranks than the launcher promised
  communication = 9,  // the transport failed, or replicas differ
  stopped = 75,       // saved after a stop signal; requeue the job to continue
};

class Error : public std::runtime_error {
 public:
  Error(Exit code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Exit code() const noexcept { return code_; }

 private:
  Exit code_;
};

// An error that every rank throws at the same point with the same text: rank 0 alone prints it, and all ranks end in
// order. Any other Error belongs to one rank, which aborts the job.
class CollectiveError : public Error {
 public:
  using Error::Error;
  explicit CollectiveError(const Error& error) : Error(error) {}
};

// A CollectiveError that rank 0 has printed already.
class ReportedError : public CollectiveError {
 public:
  using CollectiveError::CollectiveError;
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

// The error that an exception stands for: itself, if it is an Error; Exit::device with the limits, if memory or threads
// are short; else Exit::internal. Without memory for the text it returns a
// copy of an out-of-memory error that was made at the start; the copy allocates nothing.
Error as_error(const std::exception& exception) noexcept;

// The text of an errno. Names the limit where the process may open no more files.
std::string errno_text(int error);

[[noreturn]] void fail_expectation(const char* file, int line, const char* condition);  // for DDP_EXPECT

}  // namespace ddp

// Checks a precondition between parts of this program. A failure is a bug: Error(Exit::internal) with file and line.
#define DDP_EXPECT(condition) ((condition) ? void() : ::ddp::fail_expectation(__FILE__, __LINE__, #condition))
