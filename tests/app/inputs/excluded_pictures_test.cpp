#include "app/inputs/excluded_pictures.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

PictureList list_of(const std::vector<int64_t>& sizes) {
  PictureListBuilder list({"a"});
  for (size_t i = 0; i < sizes.size(); ++i) list.add(std::to_string(i) + ".jpg", 0, sizes[i], 0);
  return std::move(list).finish();
}

// Pictures 1 and 3 are broken at the start; then 2 breaks, in step 5, and 0 before step 9, where the run is resumed; 1
// is mended. Files that broke or were mended have other sizes.
TEST(ExcludedPictures, StayTheSameAfterAResume) {
  const std::map<int64_t, int64_t> none;
  const PictureList before = list_of({10, 11, 12, 13, 14}), after = list_of({7, 99, 8, 13, 14});
  const PictureFacts at_start{.broken = {{1, "cut"}, {3, "empty"}}},
      at_resume{.broken = {{0, "cut"}, {2, "cut"}, {3, "empty"}}};
  const PartFacts start{before, at_start, none};
  PartState state = excluded_pictures(start, nullptr, 1);
  EXPECT_EQ(state.left_out, (std::vector<int64_t>{1, 3}));
  EXPECT_TRUE(state.broken.empty());
  const uint64_t hash = hash_at_start(start, state);
  EXPECT_EQ(hash, before.hash());
  EXPECT_EQ(left_out_lines(start, state, 1), "\n  1.jpg: cut\n  and 1 more");

  const BrokenPicture two{.picture = 2, .bytes = 12, .step = 5, .reason = "2.jpg: cut"};
  state.broken = {two};
  const std::map<int64_t, int64_t> sizes = {{0, 10}, {1, 11}, {2, 12}};
  const PartFacts resume{after, at_resume, sizes};
  const PartState resumed = excluded_pictures(resume, &state, 9);
  EXPECT_EQ(resumed.left_out, state.left_out);
  ASSERT_EQ(resumed.broken.size(), 2u);
  EXPECT_EQ(resumed.broken[0], (BrokenPicture{.picture = 0, .bytes = 10, .step = 9, .reason = "0.jpg: cut"}));
  EXPECT_EQ(resumed.broken[1], two);
  EXPECT_EQ(hash_at_start(resume, resumed), hash);
  EXPECT_EQ(left_out_lines(resume, resumed, 9), "\n  1.jpg\n  3.jpg: empty");
  EXPECT_EQ(broken_lines(resumed.broken, 1), "\n  0.jpg: cut, from step 9 on\n  and 1 more");

  // A picture that has ended the run before step 5 counts only if it is still broken.
  EXPECT_EQ(excluded_pictures(resume, &state, 5).broken.size(), 2u);
  EXPECT_TRUE(excluded_pictures({before, at_start, none}, &state, 5).broken.empty());
  EXPECT_EQ(excluded_pictures({before, at_start, none}, &state, 6).broken, std::vector{two});

  // Another file that has changed is other data.
  const PictureList other = list_of({7, 99, 8, 13, 15});
  EXPECT_NE(hash_at_start({other, at_resume, sizes}, resumed), hash);
  // A resumed run on other data is refused later; it must not look beyond its list.
  const PictureList shorter = list_of({10, 11});
  const PartState cut = excluded_pictures({shorter, {}, none}, &state, 9);
  EXPECT_EQ(cut.left_out, std::vector<int64_t>{1});
  EXPECT_TRUE(cut.broken.empty());
  const PictureFacts no_facts;
  const PartState foreign{.left_out = {-5}, .broken = {{.picture = -3}}};
  EXPECT_TRUE(excluded_pictures({before, no_facts, none}, &foreign, 9).left_out.empty());
  EXPECT_TRUE(excluded_pictures({before, no_facts, none}, &foreign, 9).broken.empty());
}

// Picture 1 lacks its end from the start, and ends the run in step 5. Then it is whole, and has another size. The data
// stay the same for all later processes, also where it breaks again.
TEST(ExcludedPictures, AreTheSameDataOnceMended) {
  const std::map<int64_t, int64_t> none;
  const PictureList cut = list_of({10, 6, 12}), whole = list_of({10, 11, 12});
  const PictureFacts no_facts;
  const PartFacts now{whole, no_facts, none};
  const uint64_t hash = cut.hash();
  const PartState saved{.broken = {{.picture = 1, .bytes = 6, .step = 5, .reason = "1.jpg: cut"}}};
  PartState resumed = excluded_pictures(now, &saved, 5);
  EXPECT_TRUE(resumed.broken.empty());
  EXPECT_EQ(hash_at_start(now, resumed), hash);
  resumed = excluded_pictures(now, &resumed, 9);
  EXPECT_EQ(hash_at_start(now, resumed), hash);
  resumed.broken = {{.picture = 1, .bytes = 11, .step = 9, .reason = "1.jpg: cut"}};
  EXPECT_EQ(hash_at_start(now, excluded_pictures(now, &resumed, 12)), hash);
  const PictureList other = list_of({10, 11, 13});
  EXPECT_NE(hash_at_start({other, no_facts, none}, resumed), hash);
}

}  // namespace
}  // namespace ddp
