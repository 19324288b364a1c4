#include "nn/model_file/expression.h"

#include "tests/expect_error.h"

#include <gtest/gtest.h>

#include <string>

namespace ddp {
namespace {

const Variables kVariables{{"width", int64_t{7}}, {"rate", 0.25}};

void expect_number(const std::string& text, const Number& expected) {
  EXPECT_EQ(evaluate(text, kVariables), expected) << text;
}

void expect_refused(const std::string& text, const std::string& part) {
  expect_error(Exit::model, {part}, [&] { evaluate(text, kVariables); });
}

TEST(Expression, ComputesWithPrecedenceAndTypes) {
  expect_number("1 + 2*3 - 8 / 4", int64_t{5});
  expect_number("10 - 4 - 3", int64_t{3});
  expect_number("2 * (width + 1) % 5", int64_t{1});
  expect_number("-width + - - 9", int64_t{2});
  expect_number("7 / 2", 3.5);
  expect_number("8 / 2", int64_t{4});
  expect_number("4 * rate", 1.0);
  expect_number("1e-6", 1e-6);
  expect_number("1.5e+2-2E1", 130.0);
  expect_number("9223372036854775807", INT64_MAX);
}

TEST(Expression, RefusesWhatHasNoValue) {
  expect_refused("", "ends where a number or a variable must follow");
  expect_refused("1 +", "ends where");
  expect_refused("1 2", "\"2\" at character 3");
  expect_refused("2 * \x1b", "\"\\x1B\" at character 5");
  expect_refused("(1", "lacks a \")\"");
  expect_refused("1)", "\")\" at character 2");
  expect_refused("1.2.3", "1.2.3 is no number");
  expect_refused("1e999", "1e999 is no number");
  expect_refused("height * 2", "height is no variable here; the variables are: rate, width");
  expect_refused("1 / 0", "1 / 0 divides by zero");
  expect_refused("1 / (rate - 0.25)", "divides by zero");
  expect_refused("1 % 0", "1 % 0 needs");
  expect_refused("-1 % 2", "-1 % 2 needs");
  expect_refused("1 % rate", "1 % 0.25 needs whole numbers");
}

TEST(Expression, RefusesOverflowAndDepth) {
  expect_refused("9223372036854775807 + 1", "9223372036854775807 + 1 does not fit 64 bits");
  expect_refused("-9223372036854775807 - 2", "does not fit");
  expect_refused("4294967296 * 4294967296", "does not fit");
  expect_refused("(-9223372036854775807 - 1) / -1", "does not fit");
  expect_refused("9223372036854775808", "9223372036854775808 is no number of 64 bits");
  expect_refused("1e300 * 1e300", "is not finite");
  EXPECT_NO_THROW(evaluate(std::string(64, '(') + "1" + std::string(64, ')'), kVariables));
  expect_refused(std::string(65, '(') + "1" + std::string(65, ')'), "more than 64 parentheses and signs");
  expect_refused(std::string(65, '-') + "1", "more than 64");
  expect_refused(std::string(257, '1'), "longer than 256 bytes");
}

}  // namespace
}  // namespace ddp
