// How the values of one weight or bias begin, in the words of torch.nn.init.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddp {

struct InitRule {
  enum class Kind : uint8_t {
    pytorch,       // uniform in [-1/sqrt(fan_in), 1/sqrt(fan_in)], as torch.nn.Linear and Conv2d
    constant,      // value
    normal,        // N(0, value^2)
    trunc_normal,  // the same, conditioned on [-2, 2], as trunc_normal_()
    uniform        // uniform in [-value, value]
  };
  Kind kind = Kind::pytorch;
  double value = 0;
};

// Of a layer with weights, also for its bias: the size of the kernel times the input channels of a group, and times all
// output channels. Linear layers have a kernel of 1.
struct Fans {
  double in = 1, out = 1;
};

// The rule of a name, as of the functions of torch.nn.init with gain 1, in kaiming_* sqrt(2):
//
//   zeros, ones, pytorch
//   kaiming_normal_fan_in    normal, sqrt(2 / fan_in)       kaiming_normal_fan_out    normal, sqrt(2 / fan_out)
//   kaiming_uniform_fan_in   uniform, sqrt(6 / fan_in)      kaiming_uniform_fan_out   uniform, sqrt(6 / fan_out)
//   xavier_normal            normal, sqrt(2 / (fan_in + fan_out))
//   xavier_uniform           uniform, sqrt(6 / (fan_in + fan_out))
std::optional<InitRule> init_rule(std::string_view name, const Fans& fans);
std::string init_rule_names();

}  // namespace ddp
