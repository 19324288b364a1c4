#include "core/json_reader.h"

#include "core/error.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ddp {
namespace {

void expect_refused(const std::string& text, const std::string& why, const JsonLimits& limits = {}) {
  try {
    read_json(text, "file", limits);
    ADD_FAILURE() << "accepted: " << text.substr(0, 100);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::data);
    EXPECT_EQ(e.what(), "file " + why);
  }
}

TEST(JsonReader, BuildsWhatTheTextSays) {
  for (const std::string text :
       {R"({"a":[1,-2,3.5,null,true,false,"x"],"b":{"c":{},"d":[],"e":[[{"f":1},2],3]},"g":18446744073709551615})", "7",
        R"("\u00e9\n")", "[]", " {} "}) {
    EXPECT_EQ(read_json(text, "file"), nlohmann::json::parse(text)) << text;
  }
}

TEST(JsonReader, RefusesWhatIsNotJson) {
  expect_refused("", "is not JSON, from byte 1 on");
  expect_refused("{\"a\":1}x", "is not JSON, from byte 8 on");
  expect_refused("{\"a\x1b[31m", "is not JSON, from byte 4 on");  // no text of the file is in the message
  expect_refused("\"\xff\"", "is not JSON, from byte 2 on");
  expect_refused("[1e999]", "has an invalid number before byte 6");
}

TEST(JsonReader, RefusesEqualNames) {
  EXPECT_EQ(read_json(R"({"a":{"b":1},"b":{"b":2}})", "file")["b"]["b"], 2);
  expect_refused(R"({"a":1,"b":{},"a":2})", R"(has "a" twice)");
  expect_refused(R"([{"\u001b]0;":1,"\u001b]0;":1}])", R"(has "\x1B]0;" twice)");
}

TEST(JsonReader, KeepsItsLimits) {
  const JsonLimits limits{.bytes = 20, .values = 5, .depth = 2};
  EXPECT_EQ(read_json("[[1,2],[4]]         ", "file", {.bytes = 20, .values = 6, .depth = 2}).size(), 2u);
  expect_refused("[]                   ", "has 21 bytes; it may have 20", limits);
  expect_refused("[1,2,3,4,5]", "has more than 5 values", limits);
  expect_refused(R"({"a":{"b":[]}})", "is nested too deeply, over 2 levels", limits);
  expect_refused(std::string(1'000'000, '['), "is nested too deeply, over 2 levels", {.bytes = 1 << 20, .depth = 2});
}

}  // namespace
}  // namespace ddp
