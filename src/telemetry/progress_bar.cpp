#include "telemetry/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ddp {
namespace {

constexpr const char* kGap = "  ";
constexpr int kGapColumns = 2, kLeastBar = 10, kMostBar = 32;  // the bar with its brackets

// Fields in their order on the line.
enum Field : uint8_t { epoch, bar, steps, loss, samples, tokens, left, parts, kFields };
constexpr std::array kByImportance{steps, left, loss, tokens, samples, bar, epoch, parts};
static_assert(kByImportance.size() == kFields);

double share_of(const Progress& p) {
  return p.steps > 0 ? std::clamp(static_cast<double>(p.step) / static_cast<double>(p.steps), 0.0, 1.0) : 0;
}

std::string number(double value, double most, int digits) {
  return std::abs(value) < most ? fmt::format("{:.{}f}", value, digits) : fmt::format("{:.3g}", value);
}

std::string text_of_parts(const StepTimes& times) {
  const double total = times.total();
  if (!(total > 0) || !std::isfinite(total)) return "";
  const auto percent = [&](double ms) { return std::lround(100 * std::clamp(ms / total, 0.0, 1.0)); };
  return fmt::format("data {}% compute {}% comm {}%", percent(times.data), percent(times.compute),
                     percent(times.exposed_comm));
}

// The bar of this many columns.
std::string text_of_bar(const Progress& p, int columns, bool colour) {
  const int inner = columns - 2, filled = static_cast<int>(share_of(p) * inner);
  const std::string done(filled, '#'), open(inner - filled, '.');
  return fmt::format(fmt::runtime(colour ? "[\033[32m{}\033[0m{}]" : "[{}{}]"), done, open);
}

// The bar has its least width; an empty text is not known.
std::array<std::string, kFields> texts_of(const Progress& p) {
  std::array<std::string, kFields> texts;
  texts[epoch] = fmt::format("epoch {}/{}", p.epoch, p.epochs);
  texts[bar] = std::string(kLeastBar, ' ');
  texts[steps] = fmt::format("{:>{}}/{}", p.step, fmt::formatted_size("{}", p.steps), p.steps);
  texts[loss] = "loss " + number(p.loss, 1e4, 4);
  if (std::isfinite(p.samples_per_second))
    texts[samples] = number(p.samples_per_second, 1e9, p.samples_per_second < 10 ? 1 : 0) + " samples/s";
  if (const double rate = p.tokens_per_second(); std::isfinite(rate))
    texts[tokens] = number(rate, 1e9, 0) + " tokens/s";
  if (const std::string time = duration_text(p.seconds_left); !time.empty()) texts[left] = time + " left";
  texts[parts] = text_of_parts(p.parts);
  return texts;
}

}  // namespace

std::string duration_text(double seconds) {
  constexpr int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour, kMostDays = 9999;
  if (!(seconds >= 0)) return "";
  const auto s = static_cast<int64_t>(std::min(std::round(seconds), static_cast<double>(kMostDays * kDay)));
  const int64_t hours = s / kHour, minutes = s % kHour / kMinute;
  if (s >= kDay) return fmt::format("{}d {:02}:{:02}", s / kDay, s % kDay / kHour, minutes);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, s % kMinute);
  return fmt::format("{}:{:02}", minutes, s % kMinute);
}

std::string progress_bar(const Progress& p, int width, bool colour) {
  const int room = width - 1;
  auto texts = texts_of(p);
  int taken = -kGapColumns;
  const auto fits = [&](const std::string& text) {
    return taken + kGapColumns + static_cast<int>(text.size()) <= room;
  };
  if (!fits(texts[steps])) texts[steps] = fmt::format("{:.0f}%", std::floor(100 * share_of(p)));
  std::array<bool, kFields> shown{};
  for (const Field field : kByImportance) {
    if (texts[field].empty()) continue;
    if (!fits(texts[field])) break;
    taken += kGapColumns + static_cast<int>(texts[field].size());
    shown[field] = true;
  }
  if (shown[bar]) texts[bar] = text_of_bar(p, std::min(kMostBar, kLeastBar + room - taken), colour);

  std::string line;
  for (int field = 0; field < kFields; ++field)
    if (shown[field]) line += (line.empty() ? "" : kGap) + texts[field];
  return line;
}

}  // namespace ddp
