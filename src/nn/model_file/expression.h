// The arithmetic of network files (nn/model_file.h): + - * / %, parentheses and sqrt(x) over integers, decimals and
// variables.
//
// Integers have 64 bits. A quotient of two integers is an integer if it leaves no remainder, else a decimal; with a
// decimal, a result is a decimal, and so is that of sqrt. % takes integers from 0.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

namespace ddp {

using Number = std::variant<int64_t, double>;
using Variables = std::map<std::string, Number, std::less<>>;

inline constexpr size_t kLongestExpression = 256;  // bytes

// Throws Error(Exit::model) for text that is no expression, an unknown variable (with a list of the known ones), a
// division by 0, a square root of less than 0, and a result that does not fit 64 bits or is not finite.
Number evaluate(std::string_view text, const Variables& variables);

std::string number_text(const Number& number);

}  // namespace ddp
