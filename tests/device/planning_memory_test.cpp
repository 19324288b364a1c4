#include "device/planning_memory.h"

#include "device/buffer.h"
#include "tests/expect_error.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

TEST(PlanningMemory, CountsWhatLivesAtOneTime) {
  PlanningMemory memory;
  {
    const Buffer a(memory, 1000);
    EXPECT_EQ(memory.peak(), 1000);
    { const Buffer b(memory, 500); }
    { const Buffer c(memory, 300); }
    EXPECT_EQ(memory.peak(), 1500);
  }
  const Buffer d(memory, 1400);
  EXPECT_EQ(memory.peak(), 1500);
}

// More than any machine has, zeroed and writable.
TEST(PlanningMemory, TakesAddressesOnly) {
  constexpr size_t kBytes = size_t{1} << 40;
  PlanningMemory memory;
  const Buffer buffer(memory, kBytes);
  EXPECT_EQ(buffer.as<char>()[kBytes - 1], 0);
  buffer.as<char>()[kBytes / 2] = 1;
  EXPECT_EQ(memory.peak(), int64_t{1} << 40);
  expect_error(Exit::device, {"no address space"}, [&] { Buffer(memory, size_t{1} << 60); });
}

}  // namespace
}  // namespace ddp
