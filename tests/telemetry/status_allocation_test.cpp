#include "telemetry/status_file.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>

namespace {

thread_local int64_t allocations = 0;

}  // namespace

// Not inlined: the compiler must not see that operator new calls malloc.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace ddp {
namespace {

TEST(StatusFileStep, AllocatesNothing) {
  const TempFolder folder;
  StatusFile file({.folder = folder.path(),
                   .host = "here",
                   .require_in_place = [] {},
                   .ranks = [] { return std::vector<RankStatus>{}; },
                   .epochs = 2,
                   .steps_per_epoch = 5,
                   .total_steps = 10});
  StepResult result;
  result.step = result.epoch = 1;
  const int64_t before = allocations;
  file.step(result);
  EXPECT_EQ(allocations, before);
  { const std::string detected(100, 'x'); }
  EXPECT_GT(allocations, before);
}

}  // namespace
}  // namespace ddp
