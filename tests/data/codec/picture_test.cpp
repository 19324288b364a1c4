#include "data/codec/picture.h"

#include "tests/data/codec/picture_files.h"

#include <algorithm>
#include <sstream>

namespace ddp {
namespace {

// A decode that Pillow has done too: a line of expected.txt.
struct Expected {
  std::string file, alpha;
  int channels = 0, header_channels = 0, header_alpha = 0, orientation = 0, tolerance = 0;
  PictureSize size;
  Bytes pixels;

  DecodeConfig config() const {
    return {.channels = channels,
            .alpha = alpha == "white"   ? Alpha::white
                     : alpha == "black" ? Alpha::black
                                        : Alpha::drop};
  }
};

std::vector<Expected> expected_decodes() {
  const Bytes text = picture_file("expected.txt"), all = picture_file("expected.bin");
  std::istringstream lines(std::string(text.begin(), text.end()));
  std::vector<Expected> decodes;
  auto at = all.begin();
  for (Expected e; lines >> e.file >> e.channels >> e.alpha >> e.header_channels >> e.header_alpha >> e.size.w >>
                   e.size.h >> e.orientation >> e.tolerance;) {
    const auto end = at + e.size.w * e.size.h * e.channels;
    e.pixels.assign(at, end);
    at = end;
    decodes.push_back(e);
  }
  EXPECT_TRUE(at == all.end());
  return decodes;
}

TEST(Picture, EqualsPillow) {
  const std::vector<Expected> decodes = expected_decodes();
  EXPECT_GE(decodes.size(), 70u);
  for (const Expected& e : decodes) {
    const Bytes file = picture_file(e.file);
    const PictureHeader header = read_picture_header(file, true);
    EXPECT_EQ(header.size, e.size) << e.file;
    EXPECT_EQ(header.orientation, e.orientation) << e.file;
    EXPECT_EQ(header.channels, e.header_channels) << e.file;
    EXPECT_EQ(header.alpha, e.header_alpha == 1) << e.file;
    EXPECT_LE(largest_difference(decode_all(file, e.config()), e.pixels), e.tolerance) << e.file << " " << e.alpha;
  }
}

// Every box of a picture has the pixels of the whole, for each kind of file and each orientation.
TEST(Picture, ABoxEqualsTheWhole) {
  for (const Expected& e : expected_decodes()) {
    const Bytes file = picture_file(e.file), whole = decode_all(file, e.config());
    const int64_t w = e.size.w, h = e.size.h;
    for (const Box& box : {Box{w / 3, h / 4, (w + 1) / 2, (h + 1) / 2}, Box{w - 1, h - 1, 1, 1}, Box{0, h / 2, w, 1}}) {
      Bytes cut;
      for (int64_t y = box.y; y < box.y + box.h; ++y) {
        const auto row = whole.begin() + (y * w + box.x) * e.channels;
        cut.insert(cut.end(), row, row + box.w * e.channels);
      }
      EXPECT_TRUE(decode_box(file, box, e.config()) == cut) << e.file << " " << box.x << " " << box.y;
    }
  }
}

// All bytes before the pixels are enough. With fewer it is cut short, not broken.
TEST(Picture, HasItsHeaderInItsHead) {
  for (const char* name : {"exif-6.jpg", "grey-trns.png", "interlaced.png", "lossy.webp", "lossless-alpha.webp",
                           "webp-exif-6.png", "animated.webp"}) {
    const Bytes file = picture_file(name);
    const PictureHeader whole = read_picture_header(file, true);
    const auto head = [&](size_t size) { return read_picture_head(std::span(file).first(size), true); };
    size_t size = 12;
    for (;; ++size) {
      ASSERT_LE(size, file.size()) << name;
      try {
        head(size);
        break;
      } catch (const PictureCutShort&) {
      }
    }
    for (const size_t enough : {size, std::min(size + 1, file.size()), file.size()}) {
      const PictureHeader header = head(enough);
      EXPECT_EQ(header.size, whole.size) << name;
      EXPECT_EQ(header.orientation, whole.orientation) << name;
      EXPECT_EQ(header.channels, whole.channels) << name;
      EXPECT_EQ(header.alpha, whole.alpha) << name;
      EXPECT_EQ(header.buffered, whole.buffered) << name;
      EXPECT_EQ(header.animated, std::string(name) == "animated.webp");
      EXPECT_EQ(header.animated, whole.animated);
      EXPECT_EQ(header.file_bytes, header.kind == PictureHeader::Kind::webp ? std::ssize(file) : 0) << name;
    }
  }
}

TEST(Picture, OrientationCanBeIgnored) {
  const Bytes file = picture_file("exif-6.jpg");
  const PictureHeader header = read_picture_header(file, false);
  EXPECT_EQ(header.size, (PictureSize{23, 17}));
  EXPECT_EQ(header.orientation, 1);
  EXPECT_EQ(decode_all(file, {.exif = false}), decode_all(picture_file("exif-1.jpg")));
}

// A turned picture that is resized has the pixels of the upright one, resized.
TEST(Picture, ResizesUpright) {
  const Bytes upright = picture_file("sampling-grey.jpg");
  for (int orientation = 1; orientation <= 8; ++orientation) {
    Bytes turned = upright;
    const Bytes exif = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0,
                        0,    0,    8, 0,  1,   1,   18,  0,   3, 0, 0,   0,   1, 0,  static_cast<uint8_t>(orientation),
                        0,    0,    0, 0,  0,   0};
    turned.insert(turned.begin() + 2, exif.begin(), exif.end());
    const PictureHeader header = read_picture_header(turned, true);
    ASSERT_EQ(header.orientation, orientation);
    ASSERT_EQ(header.size, orientation < 5 ? (PictureSize{150, 117}) : (PictureSize{117, 150}));
    Bytes pixels(40 * 30), expected(40 * 30);
    // A source of 80 x 60 becomes 40 x 30: JPEG decodes it at 1/2. Stored boxes begin at even and at odd columns.
    const Box source = {11, 20, 80, 60};
    PictureDecoder decoder({.channels = 1});
    decoder.decode(turned, header, {source, {40, 30}, {0, 0, 40, 30}}, pixels);
    // The same without scaling: the filter is a little other, so the pixels are close.
    const Bytes whole = decode_box(turned, source, {.channels = 1});
    for (int y = 0; y < 30; ++y)
      for (int x = 0; x < 40; ++x) {
        int sum = 0;
        for (int i = 0; i < 4; ++i) sum += whole[static_cast<size_t>((2 * y + i / 2) * 80 + 2 * x + i % 2)];
        expected[static_cast<size_t>(y * 40 + x)] = static_cast<uint8_t>(sum / 4);
      }
    double error = 0;
    for (size_t i = 0; i < pixels.size(); ++i) error += std::abs(pixels[i] - expected[i]);
    EXPECT_LT(error / static_cast<double>(pixels.size()), 3.0) << orientation;  // shifted by a pixel: more than 6
  }
}

TEST(Picture, IsZeroOutsideTheResizedPicture) {
  const Bytes file = picture_file("grey.jpg");
  const PictureHeader header = read_picture_header(file, true);
  for (const int channels : {1, 3}) {
    const DecodeConfig config = {.channels = channels};
    const Bytes whole = decode_all(file, config);
    Bytes pixels(static_cast<size_t>(40 * 30 * channels), 77);
    PictureDecoder decoder(config);
    decoder.decode(file, header, {{0, 0, 23, 17}, {23, 17}, {-5, -3, 40, 30}}, pixels);
    for (int y = 0; y < 30; ++y)
      for (int x = 0; x < 40; ++x)
        for (int c = 0; c < channels; ++c) {
          const bool inside = x >= 5 && x < 28 && y >= 3 && y < 20;
          const int expected = inside ? whole[static_cast<size_t>(((y - 3) * 23 + x - 5) * channels + c)] : 0;
          ASSERT_EQ(pixels[static_cast<size_t>((y * 40 + x) * channels + c)], expected) << x << " " << y;
        }
    decoder.decode(file, header, {{0, 0, 23, 17}, {23, 17}, {50, 0, 40, 30}}, pixels);
    EXPECT_EQ(pixels, Bytes(pixels.size()));
  }
}

TEST(Picture, NamesWhatIsNoPicture) {
  const auto read = [](const std::string& text) {
    return [text] { read_picture_header(Bytes(text.begin(), text.end()), true); };
  };
  expect_picture_error("the file is empty", read(""));
  expect_picture_error("not a JPEG, PNG or WebP file: it begins with \"<!DOCTYPE html>\\x0a\"",
                       read("<!DOCTYPE html>\n<html>"));
  expect_picture_error("it begins with \"RIFF$\\x01\\x02\\x03WAVE\\x80\"", read("RIFF$\1\2\3WAVE\x80"));
  for (const std::string& other :
       {std::string("GIF89a"), std::string("BM6\f"), std::string("II*\0\b", 5), std::string("RIFF")})
    expect_picture_error("not a JPEG, PNG or WebP file: it begins with", read(other));
}

// The memory that a caller should expect grows with the picture only where it is decoded as a whole.
TEST(Picture, TellsItsMemory) {
  const auto bytes = [](PictureSize size, bool buffered, int orientation,
                        PictureHeader::Kind kind = PictureHeader::Kind::jpeg) {
    return decode_bytes({.kind = kind, .size = size, .orientation = orientation, .buffered = buffered});
  };
  EXPECT_LT(bytes({10'000, 10'000}, false, 1), 8 << 20);
  EXPECT_GT(bytes({10'000, 10'000}, true, 1), 8 * 100'000'000LL);
  EXPECT_GT(bytes({10'000, 10'000}, false, 6), 4 * 100'000'000LL);
  EXPECT_GT(bytes({10'000, 10'000}, true, 6, PictureHeader::Kind::webp), 16 * 100'000'000LL);
}

}  // namespace
}  // namespace ddp
