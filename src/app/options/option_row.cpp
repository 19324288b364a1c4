#include "app/options/option_row.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>

namespace ddp {
namespace {

CLI::Validator range(double from, double to, bool open) {
  const std::string lower = fmt::format("{} {:g}", open ? "above" : "from", from);
  const auto check = [=](const std::string& text) {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && (open ? value > from : value >= from) && value <= to;
    return good ? std::string() : fmt::format("{} is not a number {}, at most {:g}", text, lower, to);
  };
  return CLI::Validator(check, "");
}

}  // namespace

CLI::Validator number(double from, double to) { return range(from, to, false); }
CLI::Validator above_0(double to) { return range(0, to, true); }

CLI::Validator numeric_address() {
  const auto check = [](const std::string& text) {
    std::array<char, sizeof(in6_addr)> address{};
    const bool numeric =
        inet_pton(AF_INET, text.c_str(), address.data()) == 1 || inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
    return numeric ? "" : "give an address in numbers, such as 0.0.0.0, not " + text;
  };
  return CLI::Validator(check, "ADDRESS");
}

std::string OptionRow::text() const { return condition.holds ? fmt::format("{}; {}", help, condition.sentence) : help; }

}  // namespace ddp
