#include "train/saving/save_schedule.h"

#include "core/error.h"

#include <charconv>
#include <cmath>

namespace ddp {

SaveEvery parse_save_every(const std::string& text) {
  if (text == "never") return {};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  const bool whole = number == std::floor(number) && number <= 1e15;
  if (error == std::errc() && number > 0 && std::isfinite(number)) {
    if (whole && (unit == "steps" || unit == "step")) return {.steps = static_cast<int64_t>(number)};
    if (whole && (unit == "epochs" || unit == "epoch")) return {.epochs = static_cast<int64_t>(number)};
    if (unit == "min") return {.seconds = 60 * number};
    if (unit == "s") return {.seconds = number};
  }
  fail(Exit::usage, "--save-every {}: give a number with its unit, such as 100steps, 1epochs, 10min or 30s, or never",
       text);
}

}  // namespace ddp
