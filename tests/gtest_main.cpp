// main() of a test program. The exit code 77 means that all selected cases were skipped.
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
  const auto& tests = *::testing::UnitTest::GetInstance();
  const bool skipped = tests.skipped_test_count() > 0 && tests.successful_test_count() == 0;
  return code == 0 && skipped ? 77 : code;
}
