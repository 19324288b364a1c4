#include "data/codec/exif.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp {
namespace {

using Bytes = std::vector<uint8_t>;

// A directory at 8 with a tag before the orientation, little endian.
Bytes block(uint8_t value, uint8_t type = 3, uint8_t values = 1) {
  return {'I',  'I', 42,   0, 8,      0, 0, 0, 2,     0,            //
          0x0f, 1,   2,    0, 4,      0, 0, 0, 'a',   'b', 'c', 0,  //
          0x12, 1,   type, 0, values, 0, 0, 0, value, 0,   0,   0, 0, 0, 0, 0};
}

TEST(Exif, ReadsTheOrientation) {
  for (uint8_t value = 1; value <= 8; ++value) {
    EXPECT_EQ(exif_orientation(block(value)), value);
    EXPECT_EQ(exif_orientation(block(value, 4)), value);  // as a long number
  }
  const Bytes big = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0};
  EXPECT_EQ(exif_orientation(big), 6);
  Bytes prefixed = {'E', 'x', 'i', 'f', 0, 0};
  prefixed.insert(prefixed.end(), big.begin(), big.end());
  EXPECT_EQ(exif_orientation(prefixed), 6);
}

TEST(Exif, BrokenBlocksAreUpright) {
  EXPECT_EQ(exif_orientation({}), 1);
  for (const int value : {0, 9, 255}) EXPECT_EQ(exif_orientation(block(static_cast<uint8_t>(value))), 1);
  EXPECT_EQ(exif_orientation(block(6, 2)), 1);     // a text
  EXPECT_EQ(exif_orientation(block(6, 3, 2)), 1);  // two values
  const Bytes good = block(6);
  for (size_t size = 0; size < 34; ++size) EXPECT_EQ(exif_orientation(std::span(good).first(size)), 1) << size;
  for (const size_t at : {0, 2, 3, 4, 5, 7}) {  // byte order, version, place of the directory
    Bytes bad = good;
    bad[at] ^= 0x85;
    EXPECT_EQ(exif_orientation(bad), 1) << at;
  }
  Bytes endless = good;
  endless[8] = endless[9] = 0xff;  // 65,535 entries
  endless[22] = 0;
  EXPECT_EQ(exif_orientation(endless), 1);
}

TEST(Exif, FindsTheBlockInAJpeg) {
  const Bytes head = {0xff, 0xd8, 0xff, 0xe0, 0, 4,   1,  2,
                      0xff, 0xff, 0xe1, 0,    4, 'h', 't'};  // another APP1, a fill byte
  const Bytes app1 = {0xff, 0xe1, 0, 12, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0};
  const Bytes scan = {0xff, 0xda, 0, 2};
  const auto join = [](std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const auto found = [](const Bytes& file) { return find_jpeg_exif(file).size(); };
  EXPECT_EQ(found(join({head, app1, scan})), 4u);
  EXPECT_EQ(found(join({head, scan, app1})), 0u);
  EXPECT_EQ(found(join({head, {0}, app1})), 0u);  // no marker where one must be
  const Bytes file = join({head, app1});
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_EQ(find_jpeg_exif(std::span(file).first(size)).size(), 0u) << size;
  Bytes longer = file;
  longer[head.size() + 3] = 13;  // one byte more than there is
  EXPECT_EQ(found(longer), 0u);
}

}  // namespace
}  // namespace ddp
