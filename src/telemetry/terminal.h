// The terminal that the output of a run goes to.
#pragma once

#include "core/read_file.h"

#include <unistd.h>

#include <cstdint>

namespace ddp {

// `unknown`: under a launcher on another host, or of another user.
enum class Destination : uint8_t { redirected, unknown, terminal };

// Where the text goes that this process writes to `stream`, STDOUT_FILENO or STDERR_FILENO. Under mpirun each rank has
// a pseudo-terminal or a pipe of its own; there the stream of mpirun, the parent process, decides. What mpirun marks
// line by line (--tag-output and its like) counts as redirected.
Destination destination_of(int stream);

// Pure functions of the values of environment variables; null: not set.
bool can_draw(const char* term);                                     // whether the terminal can clear a line
bool has_colour(const char* term, const char* no_color);             // see https://no-color.org
int columns_of_terminal(int columns, const char* columns_variable);  // 0: unknown. The variable is COLUMNS; else 80

class Terminal {
 public:
  Terminal();

  // The columns of the terminal now, at least 1. mpirun gives the pseudo-terminal of a rank its own size at the start
  // only, so that under mpirun this is the size of mpirun's terminal.
  int width() const;
  int height() const;  // rows, at least 1; 24 where they are not known

 private:
  int file() const { return launcher_.get() >= 0 ? launcher_.get() : STDOUT_FILENO; }

  OpenFile launcher_;  // the terminal of mpirun; none: stdout is the terminal
};

}  // namespace ddp
