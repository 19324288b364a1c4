// main() of a test program. The exit code 77 means that all selected cases were skipped. If some were skipped and the
// others passed, a line says how many; launch/test counts them.
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
  const auto& tests = *::testing::UnitTest::GetInstance();
  const int skipped = tests.skipped_test_count();
  if (code != 0 || skipped == 0) return code;
  if (tests.successful_test_count() == 0) return 77;
  std::printf("skipped: %d of the selected cases\n", skipped);
  return 0;
}
