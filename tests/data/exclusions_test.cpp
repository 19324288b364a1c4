#include "data/exclusions.h"

#include "core/error.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

PictureList five_files() {
  PictureListBuilder list({"a"});
  for (int i = 0; i < 5; ++i) list.add(std::to_string(i), 0, 10 * i, 0);
  return std::move(list).finish();
}

TEST(Exclusions, AreKnownToAllRanksOnce) {
  Exclusions mine(five_files(), {{.picture = 4, .bytes = 7, .step = 2, .reason = "known"}});
  EXPECT_TRUE(mine.contains(4) && !mine.contains(3) && !mine.empty());
  mine.found(3, 8, "b");
  mine.found(3, 9, "again");
  mine.found(4, 9, "again");
  ASSERT_EQ(mine.found().size(), 1u);
  const BrokenPicture three{.picture = 3, .bytes = 30, .step = 8, .reason = "b"},
      one{.picture = 1, .bytes = 10, .step = 8};
  EXPECT_EQ(mine.found()[0], three);
  EXPECT_TRUE(mine.contains(3));
  EXPECT_EQ(mine.known().size(), 1u);
  EXPECT_EQ(mine.agree({three, one, three}), (std::vector{one, three}));
  EXPECT_TRUE(mine.found().empty());
  EXPECT_EQ(mine.known().size(), 3u);
  EXPECT_EQ(mine.known()[2].bytes, 7);
  EXPECT_TRUE(mine.agree({three}).empty());
  EXPECT_THROW(Exclusions(five_files(), {{.picture = 5}}), Error);
}

TEST(Exclusions, OfManyPicturesAreGone) {
  EXPECT_FALSE(are_gone(10, 10));
  EXPECT_TRUE(are_gone(11, 20));
  EXPECT_FALSE(are_gone(20, 2000));
  EXPECT_TRUE(are_gone(21, 2000));
}

}  // namespace
}  // namespace ddp
