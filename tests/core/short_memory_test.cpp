#include "core/error.h"
#include "tests/heap.h"

#include <gtest/gtest.h>

#include <array>
#include <new>
#include <stdexcept>
#include <string>

namespace ddp {
namespace {

TEST(ShortMemory, ErrorNeedsNoMemory) {
  const std::bad_alloc exception;
  const std::logic_error bug("a bug whose text needs memory");
  const auto errors = [&] {
    const testing::ShortMemory short_memory;
    return std::array{as_error(exception), as_error(bug)};
  }();
  for (const Error& error : errors) {
    EXPECT_EQ(error.code(), Exit::device);
    EXPECT_TRUE(std::string(error.what()).starts_with("out of memory; use a smaller --batch-size")) << error.what();
  }
}

}  // namespace
}  // namespace ddp
