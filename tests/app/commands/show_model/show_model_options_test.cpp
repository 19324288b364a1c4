#include "app/commands/show_model/show_model_options.h"

#include "core/error.h"
#include "tests/app/options/option_lines.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace ddp {
namespace {

ShowModelOptions shown(const std::string& line) {
  std::optional<std::string> answer;
  return parse_show_model_options(words(line), answer);
}

TEST(ShowModelOptions, TakeTheShapeOfImages) {
  EXPECT_EQ(shown("lenet --image 28x30x1").image, (ImageShape{28, 30, 1}));
  EXPECT_FALSE(shown("lenet").image || shown("lenet").classes);
  for (const char* wrong :
       {"28x28", "28x28x", "0x28x1", "28x28x1x1", "28x28x3.5", "99999x28x1", "-1x28x1", "x", "28"}) {
    try {
      shown(fmt::format("lenet --image {}", wrong));
      ADD_FAILURE() << "accepted " << wrong;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::usage);
    }
  }
  EXPECT_THROW(shown("lenet --svg a.png"), Error);
  EXPECT_THROW(shown(""), Error);
}

}  // namespace
}  // namespace ddp
