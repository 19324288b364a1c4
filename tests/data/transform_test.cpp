#include "data/transform.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace ddp {
namespace {

using Kind = TransformConfig::Kind;

// expected/make_transforms.py describes the lines.
TEST(Transform, BoxesAndSizesAreTorchvisions) {
  std::ifstream file(std::string(DDP_EXPECTED_DATA) + "/transforms.txt");
  std::map<std::string, int> seen;
  for (std::string line; std::getline(file, line);) {
    SCOPED_TRACE(line);
    std::istringstream numbers(line);
    std::string kind, bar;
    TransformConfig config;
    PictureSize picture;
    numbers >> kind >> picture.w >> picture.h;
    ++seen[kind];
    if (kind == "rrc") {
      Box expected;
      numbers >> config.scale[0] >> config.scale[1] >> config.ratio[0] >> config.ratio[1] >> bar >> expected.x >>
          expected.y >> expected.w >> expected.h >> bar;
      ASSERT_TRUE(numbers);
      const auto uniform = [&] {
        int64_t drawn = -1;
        numbers >> drawn;
        EXPECT_GE(drawn, 0) << "one draw more than torchvision";
        return static_cast<float>(drawn) * 0x1p-24f;
      };
      EXPECT_EQ(random_resized_crop(picture, config, uniform), expected);
      EXPECT_TRUE((numbers >> std::ws).eof()) << "fewer draws than torchvision";
    } else {
      PictureSize resized;
      int64_t x = 0, y = 0;
      numbers >> config.resize >> config.crop.w >> config.crop.h >> bar >> resized.w >> resized.h >> x >> y;
      ASSERT_TRUE(numbers);
      const Geometry geometry = geometry_of(config, picture, {});
      EXPECT_EQ(geometry.source, (Box{0, 0, picture.w, picture.h}));
      EXPECT_EQ(geometry.resized, resized);
      EXPECT_EQ(geometry.window, (Box{x, y, config.crop.w, config.crop.h}));
    }
  }
  EXPECT_EQ(seen["rrc"], 120);
  EXPECT_EQ(seen["center"], 60);
}

TEST(Transform, DrawsDependOnSeedEpochAndSampleOnly) {
  for (const Kind kind : {Kind::rrc, Kind::resize_crop}) {
    TransformConfig config{.kind = kind, .crop = {50, 50}, .resize = 300};
    const auto drawn = [&](int64_t index, int64_t epoch, uint64_t seed) {
      config.seed = seed;
      const Geometry g = geometry_of(config, {400, 300}, {.index = index, .epoch = epoch});
      return std::vector<int64_t>{g.source.x, g.source.y, g.source.w, g.window.x, g.window.y};
    };
    std::set<std::vector<int64_t>> all;
    for (int64_t index = 0; index < 20; ++index)
      for (int64_t epoch = 0; epoch < 3; ++epoch)
        for (uint64_t seed = 0; seed < 2; ++seed) {
          all.insert(drawn(index, epoch, seed));
          EXPECT_EQ(drawn(index, epoch, seed), drawn(index, epoch, seed));
        }
    EXPECT_GE(all.size(), 118u);  // of 120: two crops may be equal by chance
  }
}

TEST(Transform, RandomCropReachesEveryPlace) {
  const TransformConfig config{.kind = Kind::resize_crop, .crop = {8, 8}, .resize = 10};
  std::map<std::pair<int64_t, int64_t>, int> counts;
  for (int64_t index = 0; index < 900; ++index) {
    const Geometry g = geometry_of(config, {30, 30}, {.index = index});
    ++counts[{g.window.x, g.window.y}];
  }
  EXPECT_EQ(counts.size(), 9u);
  for (const auto& [place, count] : counts) {
    EXPECT_LE(std::max(place.first, place.second), 2);
    EXPECT_GE(count, 60);  // of 100 expected; five standard deviations are 47
  }
}

TEST(Transform, StretchAndNoneTakeTheWholePicture) {
  const TransformConfig stretch{.kind = Kind::stretch, .crop = {7, 5}}, none{.kind = Kind::none, .crop = {30, 20}};
  EXPECT_EQ(geometry_of(stretch, {30, 20}, {}), (Geometry{{0, 0, 30, 20}, {7, 5}, {0, 0, 7, 5}}));
  EXPECT_EQ(geometry_of(none, {30, 20}, {}), (Geometry{{0, 0, 30, 20}, {30, 20}, {0, 0, 30, 20}}));
}

}  // namespace
}  // namespace ddp
