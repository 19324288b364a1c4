#include "nn/init_rule.h"

#include <cmath>

namespace ddp {
namespace {

struct NamedRule {
  const char* name;
  InitRule (*of)(double fan_in, double fan_out);
};

constexpr NamedRule kNamedRules[] = {
    {"zeros",
     [](double, double) {
       return InitRule{InitRule::Kind::constant, 0};
     }},
    {"ones",
     [](double, double) {
       return InitRule{InitRule::Kind::constant, 1};
     }},
    {"pytorch", [](double, double) { return InitRule{}; }},
    {"kaiming_normal_fan_in",
     [](double in, double) {
       return InitRule{InitRule::Kind::normal, std::sqrt(2 / in)};
     }},
    {"kaiming_normal_fan_out",
     [](double, double out) {
       return InitRule{InitRule::Kind::normal, std::sqrt(2 / out)};
     }},
    {"kaiming_uniform_fan_in",
     [](double in, double) {
       return InitRule{InitRule::Kind::uniform, std::sqrt(6 / in)};
     }},
    {"kaiming_uniform_fan_out",
     [](double, double out) {
       return InitRule{InitRule::Kind::uniform, std::sqrt(6 / out)};
     }},
    {"xavier_normal",
     [](double in, double out) {
       return InitRule{InitRule::Kind::normal, std::sqrt(2 / (in + out))};
     }},
    {"xavier_uniform",
     [](double in, double out) {
       return InitRule{InitRule::Kind::uniform, std::sqrt(6 / (in + out))};
     }},
};

}  // namespace

std::optional<InitRule> init_rule(std::string_view name, const Fans& fans) {
  for (const NamedRule& rule : kNamedRules)
    if (rule.name == name) return rule.of(fans.in, fans.out);
  return std::nullopt;
}

std::string init_rule_names() {
  std::string names;
  for (const NamedRule& rule : kNamedRules) names += std::string(names.empty() ? "" : ", ") + rule.name;
  return names;
}

}  // namespace ddp
