#include "telemetry/packed_spans.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

TEST(PackedSpans, UnpackToTheSameSpans) {
  const std::string name = "3 conv2d";
  const std::vector<Span> spans{
      {.track = Track::layers, .name = name.c_str(), .begin_ns = -5, .end_ns = 7'000'000'000'000, .number = 12},
      {.track = Track::loader, .lane = 3, .name = "read\nsample", .begin_ns = 1, .end_ns = 2, .number = 59'999},
      {.track = Track::layers, .name = name.c_str(), .begin_ns = 9, .end_ns = 10, .number = 13}};
  std::set<std::string> names;
  const std::vector<Span> unpacked = unpack(pack(spans), names);
  ASSERT_EQ(unpacked.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(unpacked[i].track, spans[i].track);
    EXPECT_EQ(unpacked[i].lane, spans[i].lane);
    EXPECT_EQ(unpacked[i].begin_ns, spans[i].begin_ns);
    EXPECT_EQ(unpacked[i].end_ns, spans[i].end_ns);
    EXPECT_EQ(unpacked[i].number, spans[i].number);
    EXPECT_STREQ(unpacked[i].name, spans[i].name);
  }
  EXPECT_EQ(names.size(), 2u);
  EXPECT_TRUE(unpack(pack({}), names).empty());
}

}  // namespace
}  // namespace ddp
