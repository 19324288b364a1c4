#include "nn/model_file/expression.h"

#include "core/error.h"
#include "core/printable.h"

#include <charconv>
#include <cmath>

namespace ddp {
namespace {

constexpr int kMostDepth = 64;  // of parentheses and signs

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_variable(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

double decimal_of(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

Number whole_result(char op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case '+': overflows = __builtin_add_overflow(a, b, &result); break;
    case '-': overflows = __builtin_sub_overflow(a, b, &result); break;
    case '*': overflows = __builtin_mul_overflow(a, b, &result); break;
    case '%':
      require(a >= 0 && b > 0, Exit::model, "{} % {} needs a number from 0 and a divisor from 1", a, b);
      return a % b;
    default:
      require(b != 0, Exit::model, "{} / 0 divides by zero", a);
      overflows = b == -1 && a == INT64_MIN;
      if (!overflows && a % b != 0) return static_cast<double>(a) / static_cast<double>(b);
      if (!overflows) result = a / b;
  }
  require(!overflows, Exit::model, "{} {} {} does not fit 64 bits", a, op, b);
  return result;
}

Number result_of(char op, const Number& a, const Number& b) {
  if (const auto* i = std::get_if<int64_t>(&a), *j = std::get_if<int64_t>(&b); i && j) return whole_result(op, *i, *j);
  require(op != '%', Exit::model, "{} % {} needs whole numbers", number_text(a), number_text(b));
  const double x = decimal_of(a), y = decimal_of(b);
  require(op != '/' || y != 0, Exit::model, "{} / {} divides by zero", number_text(a), number_text(b));
  const double result = op == '+' ? x + y : op == '-' ? x - y : op == '*' ? x * y : x / y;
  require(std::isfinite(result), Exit::model, "{} {} {} is not finite", number_text(a), op, number_text(b));
  return result;
}

// A parser by recursive descent: sum = product {+ product}, product = factor {* factor}, and a factor is a number, a
// variable, -factor, (sum) or sqrt(sum).
class Parser {
 public:
  Parser(std::string_view text, const Variables& variables) : text_(text), variables_(variables) {}

  Number whole_text() {
    const Number number = sum();
    if (next() != '\0') fail_here();
    return number;
  }

 private:
  // '\0': the end.
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  [[noreturn]] void fail_here() const {
    if (at_ >= text_.size()) fail(Exit::model, "it ends where a number or a variable must follow");
    fail(Exit::model, "\"{}\" at character {} is not expected; write numbers, variables, + - * / % and ( )",
         printable(text_.substr(at_, 1)), at_ + 1);
  }

  Number sum() {
    Number left = product();
    for (char op = next(); op == '+' || op == '-'; op = next()) {
      ++at_;
      left = result_of(op, left, product());
    }
    return left;
  }

  Number product() {
    Number left = factor();
    for (char op = next(); op == '*' || op == '/' || op == '%'; op = next()) {
      ++at_;
      left = result_of(op, left, factor());
    }
    return left;
  }

  Number factor() {
    const char first = next();
    if (is_digit(first) || first == '.') return number();
    if (starts_variable(first)) return variable();
    if (first != '-' && first != '(') fail_here();
    require(++depth_ <= kMostDepth, Exit::model, "it has more than {} parentheses and signs in one another",
            kMostDepth);
    ++at_;
    Number inner;
    if (first == '-') {
      inner = result_of('-', int64_t{0}, factor());
    } else {
      inner = sum();
      require(next() == ')', Exit::model, "it lacks a \")\"");
      ++at_;
    }
    --depth_;
    return inner;
  }

  Number number() {
    size_t end = at_;
    bool whole = true;
    while (end < text_.size()) {
      const char c = text_[end];
      const bool sign = (c == '-' || c == '+') && (text_[end - (end > at_)] == 'e' || text_[end - (end > at_)] == 'E');
      if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && !sign) break;
      whole = whole && is_digit(c);
      ++end;
    }
    const std::string_view digits = text_.substr(at_, end - at_);
    const char *const first = digits.data(), *const last = first + digits.size();
    int64_t integer = 0;
    double decimal = 0;
    const auto read = whole ? std::from_chars(first, last, integer) : std::from_chars(first, last, decimal);
    require(read.ec == std::errc{} && read.ptr == last, Exit::model, "{} is no number of 64 bits", digits);
    at_ = end;
    return whole ? Number{integer} : Number{decimal};
  }

  Number variable() {
    size_t end = at_;
    while (end < text_.size() && (starts_variable(text_[end]) || is_digit(text_[end]))) ++end;
    const std::string_view name = text_.substr(at_, end - at_);
    if (name == "sqrt" && !variables_.contains(name)) return square_root(end);
    const auto found = variables_.find(name);
    if (found == variables_.end()) {
      std::string known;
      for (const auto& [variable, value] : variables_) known += (known.empty() ? "" : ", ") + variable;
      fail(Exit::model, "{} is no variable here; the variables are: {}", name, known);
    }
    at_ = end;
    return found->second;
  }

  // `end`: of the word sqrt.
  Number square_root(size_t end) {
    at_ = end;
    require(next() == '(', Exit::model, "sqrt lacks a \"(\"");
    const double x = decimal_of(factor());
    require(x >= 0, Exit::model, "sqrt({}) is not real", x);
    return std::sqrt(x);
  }

  const std::string_view text_;
  const Variables& variables_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Number evaluate(std::string_view text, const Variables& variables) {
  require(text.size() <= kLongestExpression, Exit::model, "it is longer than {} bytes, the limit", kLongestExpression);
  return Parser(text, variables).whole_text();
}

std::string number_text(const Number& number) {
  return std::visit([](auto value) { return fmt::format("{}", value); }, number);
}

}  // namespace ddp
