#include "telemetry/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>

namespace ddp {
namespace {

namespace fs = std::filesystem;

bool under_mpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

std::string stream_of_launcher(int stream) { return fmt::format("/proc/{}/fd/{}", getppid(), stream); }

bool marks_lines() {
  return std::ranges::any_of(
      std::initializer_list<const char*>{"OMPI_MCA_orte_tag_output", "OMPI_MCA_orte_timestamp_output",
                                         "OMPI_MCA_orte_xml_output"},
      [](const char* name) { return std::getenv(name) != nullptr; });
}

bool is_file(int stream) {
  struct stat status {};
  return fstat(stream, &status) != 0 || S_ISREG(status.st_mode);
}

winsize size_of(int file) {
  winsize size{};
  return ioctl(file, TIOCGWINSZ, &size) == 0 ? size : winsize{};
}

}  // namespace

Destination destination_of(int stream) {
  if (!under_mpirun()) return isatty(stream) ? Destination::terminal : Destination::redirected;
  if (marks_lines() || (stream == STDOUT_FILENO && !isatty(stream)) || is_file(stream)) return Destination::redirected;
  std::error_code error;
  const std::string target = fs::read_symlink(stream_of_launcher(stream), error);
  if (error || target == "/dev/null") return Destination::unknown;  // orted, the daemon of another host, has no stdout
  const bool terminal = target.starts_with("/dev/pts/") || target.starts_with("/dev/tty") || target == "/dev/console";
  return terminal ? Destination::terminal : Destination::redirected;
}

bool can_draw(const char* term) { return term && *term != '\0' && std::string_view(term) != "dumb"; }

bool has_colour(const char* term, const char* no_color) { return can_draw(term) && (!no_color || *no_color == '\0'); }

int columns_of_terminal(int columns, const char* columns_variable) {
  constexpr int kDefault = 80, kMost = 10'000;
  if (columns > 0) return columns;
  const int wanted = columns_variable ? std::atoi(columns_variable) : 0;
  return wanted > 0 ? std::min(wanted, kMost) : kDefault;
}

Terminal::Terminal()
    : launcher_(under_mpirun() && destination_of(STDOUT_FILENO) == Destination::terminal
                    ? ::open(stream_of_launcher(STDOUT_FILENO).c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)
                    : -1) {}

int Terminal::width() const { return columns_of_terminal(size_of(file()).ws_col, std::getenv("COLUMNS")); }

int Terminal::height() const {
  constexpr int kRows = 24;
  const int rows = size_of(file()).ws_row;
  return rows > 0 ? rows : kRows;
}

}  // namespace ddp
