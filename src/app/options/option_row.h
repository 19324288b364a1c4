// The declaration of one option. The command line, --help, the table of launch/README.md, config.toml and the
// comparison on resume all come from it.
#pragma once

#include "app/options/options.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddp {

constexpr double kLargestFloat = 1e38;  // finite as f32

using Predicate = bool (*)(const Options&);

// How another value of an option on resume changes the weights of the rest of the run.
enum class Effect : uint8_t {
  results,   // by more than rounding: the program refuses the resume, unless --change asks for it
  rounding,  // by rounding only: the resumed run logs the difference
  nothing,
  process,  // not at all: the option belongs to one start of the run, and a resumed run does not keep its value
};

struct Condition {
  const char* sentence = "";  // "needs --optimizer sgd"
  Predicate holds = nullptr;  // null: always

  bool met_by(const Options& options) const { return !holds || holds(options); }
};

// The comparison of an option on resume. It has no default: a row without an effect does not compile.
struct OnResume {
  constexpr OnResume(Effect e, Condition only = {}) : effect(e), condition(only) {}
  constexpr OnResume(Effect e, const char* entry) : effect(e), recorded_as(entry) {}

  // Of an option with the effect `results` that --change refuses, for this reason.
  static constexpr OnResume fixed(const char* why, const char* entry = nullptr) {
    OnResume rule(Effect::results, entry);
    rule.fixed_because = why;
    return rule;
  }

  Effect effect;
  Condition condition = {};             // while it is not met, the option has no effect
  const char* recorded_as = nullptr;    // entry of the run state that is compared instead of the option; null: none
  const char* fixed_because = nullptr;  // null: --change may change the option
};

// Declares the option to `app`. Parsing then writes the value to its field of `options`.
using Target = std::function<CLI::Option*(CLI::App& app, const std::string& name, Options& options)>;

struct OptionRow {
  const char* name;  // "--lr"
  Target target;
  OnResume on_resume;
  std::string help;
  CLI::Validator check = {};  // checks the value alone
  // While it is not met, the option has no meaning: the program refuses it if given, and config.toml omits it.
  Condition condition = {};
  // Text of a conflict with other options, such as "must be below --epochs"; empty: no conflict.
  std::string (*conflict)(const Options&) = nullptr;
  bool configurable = true;  // whether a configuration file may have it

  std::string text() const;  // help and condition
};

struct OptionGroup {
  const char* name;
  std::vector<OptionRow> rows;
};

// A number, a list of numbers, a text or a flag. `place`, an auto&(Options&), returns the field.
template <class Place>
Target to(Place place) {
  using Value = std::remove_reference_t<decltype(place(std::declval<Options&>()))>;
  return [=](CLI::App& app, const std::string& name, Options& options) -> CLI::Option* {
    Value& value = place(options);
    if constexpr (std::is_same_v<Value, bool>) return app.add_flag(name, value);
    CLI::Option* const option = app.add_option(name, value);
    if constexpr (std::is_same_v<Value, std::vector<double>>) option->delimiter(',')->default_str("");
    return option;
  };
}

// A flag that sets its bool to false.
template <class Place>
Target to_false(Place place) {
  return [=](CLI::App& app, const std::string& name, Options& options) {
    return app.add_flag_function(name, [&options, place](int64_t count) { place(options) = count <= 0; });
  };
}

// A value of type Given that `set(Options&, const Given&)` parses further. `set` may throw Error(Exit::usage).
template <class Given, class Set>
Target through(const char* default_value, Set set) {
  return [=](CLI::App& app, const std::string& name, Options& options) {
    return app.add_option_function<Given>(name, [&options, set](const Given& given) { set(options, given); })
        ->default_str(default_value);
  };
}

// One of these values, by its name. `place`, an auto&(Options&), returns the field.
template <class Value, class Place>
Target one_of(const std::vector<std::pair<std::string, Value>>& values, Place place) {
  return [=](CLI::App& app, const std::string& name, Options& options) {
    const auto set = [&options, values, place](const std::string& given) {
      for (const auto& [text, value] : values)
        if (text == given) place(options) = value;
    };
    std::vector<std::string> names;
    std::string default_name;
    for (const auto& [text, value] : values) {
      if (place(options) == value && default_name.empty()) default_name = text;
      names.push_back(text);
    }
    return app.add_option_function<std::string>(name, set)->check(CLI::IsMember(names))->default_str(default_name);
  };
}

// Checks of a range, [from, to] and (0, to]. Both refuse NaN, which CLI11's own range checks accept.
CLI::Validator number(double from, double to);
CLI::Validator above_0(double to);

// An IPv4 or IPv6 address in numbers.
CLI::Validator numeric_address();

}  // namespace ddp
