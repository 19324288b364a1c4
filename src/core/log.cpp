#include "core/log.h"

#include "core/error.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

namespace ddp {
namespace {

constexpr const char* kClear = "\r\033[J";  // to the end of the screen

// What this process shows on the terminal, which it has only one of.
struct Status {
  std::timed_mutex mutex;
  std::function<std::string()> text;  // null: none
  bool errors_share_terminal = false;
};

Status& status() {
  static Status* const state = new Status;  // threads may write until the process has ended
  return *state;
}

// A terminal that takes no text does not keep an error from another stream: after a second the lock counts for nothing.
std::unique_lock<std::timed_mutex> lock_status() {
  std::unique_lock lock(status().mutex, std::try_to_lock);
  if (!lock) (void)lock.try_lock_for(std::chrono::seconds(1));
  return lock;
}

void put(std::FILE* stream, std::string_view text) noexcept { std::fwrite(text.data(), 1, text.size(), stream); }

void put_status() noexcept {
  try {
    const std::string text = status().text();
    const auto rows = std::ranges::count(text, '\n');
    put(stdout, text + "\r" + (rows > 0 ? fmt::format("\033[{}A", rows) : ""));
  } catch (const std::exception&) {  // no memory for the text
  }
  std::fflush(stdout);
}

}  // namespace

void write_text(std::FILE* stream, std::string_view text) noexcept {
  const auto lock = lock_status();
  const bool drawn = lock && status().text != nullptr;
  if (drawn) put(stdout, kClear);
  if (drawn && stream != stdout) std::fflush(stdout);
  if (stream == stderr && status().errors_share_terminal && !text.empty()) {
    try {
      put(stream, kClear + std::string(text));  // stderr writes each part at once
    } catch (const std::exception&) {
      put(stream, text);
    }
  } else {
    put(stream, text);
  }
  std::fflush(stream);
  if (drawn && text.ends_with('\n')) put_status();
}

void draw_status(std::function<std::string()> text) noexcept {
  const auto lock = lock_status();
  if (!lock || (!text && !status().text)) return;
  status().text = std::move(text);
  put(stdout, kClear);
  if (status().text) return put_status();
  std::fflush(stdout);
}

void share_terminal_of_errors() noexcept {
  const auto lock = lock_status();
  status().errors_share_terminal = true;
}

bool write_output(std::FILE* stream, std::string_view text, const char* what) {
  if (std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0) return true;
  const int error = errno;
  require(error == EPIPE, Exit::output, "cannot write {}: {}; write them to another file or disk", what,
          std::strerror(error));
  return false;
}

Log::Log(int rank) : rank_(rank) {}

void Log::line(std::FILE* stream, std::string_view text) { write_text(stream, fmt::format("{}\n", text)); }

void Log::marked(std::string_view kind, std::string_view text) const {
  line(stderr, rank_ == 0 ? fmt::format("{}{}", kind, text) : fmt::format("[rank {}] {}{}", rank_, kind, text));
}

}  // namespace ddp
