#include "report/timeline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

namespace ddp::report {
namespace {

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

// The heights at which spans with this class are drawn.
std::set<std::string> lanes(const std::string& text, const std::string& style) {
  std::set<std::string> found;
  const std::string begin = "<rect class=\"" + style + "\" x=";
  for (size_t at = 0; (at = text.find(begin, at)) != std::string::npos; ++at) {
    const size_t y = text.find(" y=\"", at) + 4;
    found.insert(text.substr(y, text.find('"', y) - y));
  }
  return found;
}

TimelineEvent timeline_of(size_t ranks, const std::vector<Span>& spans) {
  TimelineEvent timeline{.step = 12, .ms = 9, .ranks = {}};
  for (size_t r = 0; r < ranks; ++r) timeline.ranks.push_back({.rank = static_cast<int64_t>(r), .spans = spans});
  return timeline;
}

TEST(ReportTimeline, SpansOfALaneDoNotOverlap) {
  const std::string text = draw_timeline("run", timeline_of(1, {{"step", "waiting for data", 0, 1},
                                                                {"step", "computing", 1, 8},
                                                                {"layers", "forward", 1, 3},
                                                                {"layers", "backward", 3, 8},
                                                                {"layers", "forward", 2, 4},
                                                                {"buckets", "bucket 0", 4, 5},
                                                                {"buckets", "bucket 1", 6, 9}}));
  EXPECT_EQ(lanes(text, "p-data"), lanes(text, "p-compute"));
  EXPECT_EQ(lanes(text, "p-forward").size(), 2u);
  EXPECT_EQ(lanes(text, "p-bucket").size(), 2u) << "a lane for each bucket";
  EXPECT_EQ(count(text, "data-tip="), 7);
  EXPECT_EQ(count(text, "rank 0, bucket 1: 3 ms, from 6 to 9 ms"), 1);
}

TEST(ReportTimeline, ManyBucketsShareLanes) {
  std::vector<Span> spans;
  for (int i = 0; i < 20; ++i) spans.push_back({"buckets", fmt::format("bucket {}", i), 1.0 * i, i + 1.5});
  EXPECT_EQ(lanes(draw_timeline("run", timeline_of(1, spans)), "p-bucket").size(), 2u);
}

TEST(ReportTimeline, IsBounded) {
  std::vector<Span> spans;
  for (int i = 0; i < 2000; ++i) spans.push_back({fmt::format("track {}", i % 50), "span", 0.1 * i, 0.1 * i + 30});
  const std::string text = draw_timeline("run", timeline_of(20, spans));
  EXPECT_EQ(count(text, "data-tip="), 3000);
  EXPECT_NE(text.find("8 of 20 ranks"), std::string::npos);
  EXPECT_NE(text.find("13000 more spans are not drawn"), std::string::npos);
  EXPECT_LT(text.size(), 600'000u);
}

TEST(ReportTimeline, NamesAreEscaped) {
  const std::string text = draw_timeline("<run>", timeline_of(1, {{"<track>", "\"<name>", 0, 9}}));
  EXPECT_EQ(text.find("<run>"), std::string::npos);
  EXPECT_EQ(text.find("<track>"), std::string::npos);
  EXPECT_EQ(text.find("<name>"), std::string::npos);
  EXPECT_EQ(count(text, "&quot;&lt;name&gt;"), 2);
}

}  // namespace
}  // namespace ddp::report
