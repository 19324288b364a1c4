#include "telemetry/status_text.h"

#include "core/printable.h"
#include "telemetry/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace ddp {
namespace {

constexpr double kOld = 5;  // seconds; a status is written each second

std::string silence(double seconds) {
  if (!(seconds >= 0)) return "never";
  return seconds < 10   ? fmt::format("{:.1f} s", seconds)
         : seconds < 60 ? fmt::format("{:.0f} s", seconds)
                        : duration_text(seconds);
}

std::string evaluation_text(const RunStatus& s) {
  if (s.test_loss) return fmt::format(", test loss {:.4f}, perplexity {:.4g}", *s.test_loss, std::exp(*s.test_loss));
  return s.accuracy ? fmt::format(", test acc {:.4f}", *s.accuracy) : "";
}

std::string outcome(const RunStatus& s, const Sight& sight) {
  const std::string accuracy = evaluation_text(s);
  const std::string steps = fmt::format("step {} of {}", s.step, s.steps);
  switch (s.state) {
    case RunStatus::State::done: return "the run has ended: " + steps + accuracy;
    case RunStatus::State::stopped: return "the run was stopped, --resume continues it: " + steps + accuracy;
    case RunStatus::State::failed: return "the run has failed: " + steps + accuracy;
    case RunStatus::State::running: break;
  }
  if (sight.died)
    return fmt::format("the run has died: last sign of life {} ago, {}{}", silence(sight.age), steps, accuracy);
  if (sight.age > kOld) return fmt::format("last sign of life {} ago, {}{}", silence(sight.age), steps, accuracy);
  return steps + accuracy;
}

// The columns of the table of ranks. 0: no room.
struct Widths {
  int rank = 4, host = 4, phase = 5, step = 4, silent = 6;

  int sum() const {
    int columns = -2;
    for (const int width : {rank, host, phase, step, silent}) columns += width > 0 ? width + 2 : 0;
    return columns;
  }
  void shrink(int& width, int least, int columns) const { width = std::clamp(width - (sum() - columns), least, width); }
};

// Long phases and hosts lose their ends first, then whole columns go.
Widths widths_of(std::span<const RankLine> ranks, int columns) {
  constexpr int kMostHost = 24, kLeastHost = 6, kMostPhase = 26, kLeastPhase = 8;
  Widths w;
  for (const RankLine& rank : ranks) {
    w.rank = std::max(w.rank, static_cast<int>(fmt::formatted_size("{}", rank.rank)));
    w.host = std::max(w.host, std::min(kMostHost, columns_of_text(shortened(rank.host))));
    w.phase = std::max(w.phase, std::min(kMostPhase, columns_of_text(shortened(rank.phase))));
    w.step = std::max(w.step, static_cast<int>(fmt::formatted_size("{}", rank.step)));
    w.silent = std::max(w.silent, columns_of_text(silence(rank.silent_seconds)));
  }
  w.shrink(w.phase, std::min(w.phase, kLeastPhase), columns);
  w.shrink(w.host, std::min(w.host, kLeastHost), columns);
  for (int* width : {&w.silent, &w.host, &w.step})
    if (w.sum() > columns) *width = 0;
  return w;
}

std::string row(const Widths& w, const std::string& rank, const std::string& host, const std::string& phase,
                const std::string& step, const std::string& silent) {
  std::string line = fmt::format("{:>{}}", rank, w.rank);
  if (w.host > 0) line += "  " + padded(host, w.host);
  line += "  " + padded(phase, w.phase);
  if (w.step > 0) line += fmt::format("  {:>{}}", step, w.step);
  if (w.silent > 0) line += fmt::format("  {:>{}}", silent, w.silent);
  return line;
}

std::string table(std::span<const RankLine> ranks, size_t rows, double age, int columns) {
  const auto shown = ranks.first(ranks.size() <= rows ? ranks.size() : std::max<size_t>(rows, 1) - 1);
  const Widths w = widths_of(shown, columns);
  std::string text = cut(row(w, "rank", "host", "phase", "step", "silent"), columns) + "\n";
  for (const RankLine& rank : shown) {
    const double silent = rank.silent_seconds + (rank.silent_seconds >= 0 && age > kOld ? age : 0);
    text += cut(row(w, fmt::to_string(rank.rank), shortened(rank.host), shortened(rank.phase),
                    fmt::to_string(rank.step), silence(silent)),
                columns) +
            "\n";
  }
  if (shown.size() < ranks.size())
    text += cut(fmt::format("and {} more ranks", ranks.size() - shown.size()), columns) + "\n";
  return text;
}

}  // namespace

std::string status_text(const RunStatus& s, const Sight& sight, const TextSize& size, bool colour) {
  constexpr int kOtherRows = 4;  // the bar, the head of the table, the outcome, and one for the cursor
  Progress progress = s.progress;
  if (s.state != RunStatus::State::running || sight.died)
    progress.seconds_left = progress.samples_per_second = std::nan("");
  const int columns = std::max(0, size.columns - 1);
  std::string text = progress_bar(progress, size.columns, colour) + "\n";
  if (size.rows > kOtherRows) text += table(s.ranks, static_cast<size_t>(size.rows - kOtherRows), sight.age, columns);
  return text + cut(outcome(s, sight), columns) + "\n";
}

}  // namespace ddp
