#include "report/text.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace ddp::report {
namespace {

TEST(ReportText, NoCharacterOfHtmlIsLeft) {
  EXPECT_EQ(html("<b a=\"x\" b='y'>&amp;"), "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;");
  EXPECT_EQ(html("Größe\x1b[0m\n\xff"), "Größe\\x1B[0m\\x0A\\xFF");
}

TEST(ReportText, LongTextIsCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "ß";
  EXPECT_EQ(short_html("a" + text), "a" + text.substr(0, 58) + "...");
  EXPECT_EQ(short_html(text.substr(0, 60)), text.substr(0, 60));
  EXPECT_EQ(label_html("ßßß", 3), "ßßß");
  EXPECT_EQ(label_html("ßß<ß", 3), "ßß&lt;…");
}

TEST(ReportText, JsonStandsInAScriptElement) {
  const std::string evil = "</script><!--\"\\&'";
  const std::string quoted = json_string(evil);
  EXPECT_EQ(quoted.find_first_of("<>&"), std::string::npos) << quoted;
  EXPECT_EQ(nlohmann::json::parse(quoted).get<std::string>(), evil);
  EXPECT_EQ(json_number(std::nan("")), "null");
  EXPECT_EQ(json_number(0.1234567), "0.12346");
}

TEST(ReportText, NumbersAreShort) {
  EXPECT_EQ(number(1234567), "1,234,567");
  EXPECT_EQ(number(-1234), "-1,234");
  EXPECT_EQ(number(999.96), "1000");
  EXPECT_EQ(number(17), "17");
  EXPECT_EQ(number(0.85110001), "0.8511");
  EXPECT_EQ(number(12.3456), "12.35");
  EXPECT_EQ(number(14.6321, 3), "14.6");
  EXPECT_EQ(number(1e-7), "1e-07");
  EXPECT_EQ(number(0), "0");
  EXPECT_EQ(number(std::nan("")), "–");
  EXPECT_EQ(percent(0.5), "50 %");
  EXPECT_EQ(percent(0.0049), "0.5 %");
  EXPECT_EQ(coordinate(10.04), "10");
  EXPECT_EQ(coordinate(-0.01), "0");
}

}  // namespace
}  // namespace ddp::report
