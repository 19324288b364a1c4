#include "data/kept_check.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

std::vector<CheckedPicture> two_pictures() {
  return {{.id = path_hash("b/1.jpg"),
           .bytes = 5,
           .mtime_ns = -7,
           .memory = 9,
           .content = 3,
           .w = 4,
           .h = 6,
           .grey = true,
           .animated = true},
          {.id = path_hash("a/2.jpg"), .bytes = 1, .mtime_ns = 8, .reason = "the file is cut short"}};
}

TEST(KeptCheck, FindsPicturesByPath) {
  const auto both = two_pictures();
  const std::string file = KeptCheck(both).file(true);
  const KeptCheck kept = KeptCheck::from_file(file, true);
  ASSERT_TRUE(kept.find("b/1.jpg") && kept.find("a/2.jpg"));
  EXPECT_EQ(*kept.find("b/1.jpg"), both[0]);
  EXPECT_EQ(*kept.find("a/2.jpg"), both[1]);
  EXPECT_EQ(kept.find("b/2.jpg"), nullptr);
  CheckedPicture later = both[0];
  later.bytes = 6;
  EXPECT_EQ(KeptCheck({both[0], both[1], later}).find("b/1.jpg")->bytes, 6);
  EXPECT_EQ(unpack_checked(pack_checked(both)), both);
}

TEST(KeptCheck, OfAnotherKindOrDamagedIsNone) {
  const std::string file = KeptCheck(two_pictures()).file(true);
  EXPECT_TRUE(KeptCheck::from_file(file, false).empty());
  EXPECT_TRUE(KeptCheck::from_file("", true).empty());
  for (size_t i = 0; i < file.size(); ++i) {
    EXPECT_TRUE(KeptCheck::from_file(file.substr(0, i), true).empty()) << i;
    std::string damaged = file;
    damaged[i] ^= 1;
    EXPECT_TRUE(KeptCheck::from_file(damaged, true).empty()) << i;
  }
}

// The file beside the data may be a stranger's.
TEST(KeptCheck, OfImpossiblePicturesIsNone) {
  const auto is_none = [](auto change) {
    auto pictures = two_pictures();
    change(pictures[0]);
    return KeptCheck::from_file(KeptCheck(pictures).file(true), true).empty();
  };
  EXPECT_FALSE(is_none([](CheckedPicture&) {}));
  EXPECT_TRUE(is_none([](CheckedPicture& p) { p.w = 0; }));
  EXPECT_TRUE(is_none([](CheckedPicture& p) { p.h = 0; }));
  EXPECT_TRUE(is_none([](CheckedPicture& p) { p.w = p.h = 100'000; }));
  EXPECT_TRUE(is_none([](CheckedPicture& p) { p.memory = p.bytes - 1; }));
  EXPECT_TRUE(is_none([](CheckedPicture& p) { p.bytes = -1; }));
}

}  // namespace
}  // namespace ddp
