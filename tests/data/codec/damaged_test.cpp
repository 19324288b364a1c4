// Files that cannot be read are refused with the reason.
#include "tests/data/codec/picture_files.h"

#include <algorithm>
#include <string_view>

namespace ddp {
namespace {

void read(const Bytes& file) { decode_all(file); }

size_t find(const Bytes& file, std::initializer_list<int> bytes) {
  const auto at = std::search(file.begin(), file.end(), bytes.begin(), bytes.end());
  EXPECT_TRUE(at != file.end());
  return static_cast<size_t>(at - file.begin());
}

Bytes changed(Bytes file, size_t at, std::initializer_list<int> bytes) {
  std::transform(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(at),
                 [](int b) { return static_cast<uint8_t>(b); });
  return file;
}

TEST(DamagedPicture, CutShort) {
  for (const char* name :
       {"sampling-2x2.jpg", "sampling-progressive.jpg", "sampling-restart.jpg", "cmyk.jpg", "rgb.png", "interlaced.png",
        "palette-4.png", "lossy-large.webp", "lossless.webp", "animated.webp"}) {
    const Bytes file = picture_file(name);
    for (const size_t eighths : {4, 6, 7})
      expect_picture_error("cut short", [&] { read({file.begin(), file.begin() + file.size() * eighths / 8}); });
  }
  // A cut at any byte gives an error, not a crash. Without its last two bytes, which say that it ends, a JPEG is whole.
  for (const char* name : {"one.jpg", "rgb-trns.png", "exif-3.jpg", "lossy-alpha.webp", "animated.webp"}) {
    const Bytes file = picture_file(name);
    for (size_t size = 0; size + 2 < file.size(); ++size)
      EXPECT_THROW(read({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}), PictureError)
          << name << size;
  }
}

TEST(DamagedPicture, DamagedData) {
  const Bytes restarts = picture_file("sampling-restart.jpg");
  expect_picture_error("damaged JPEG data: found marker 0xd6 instead of RST0", [&] {
    read(changed(restarts, find(restarts, {0xff, 0xd0}), {0xff, 0xd6}));
  });
  const Bytes jpeg = picture_file("sampling-1x1.jpg");
  expect_picture_error("damaged JPEG data", [&] { read(changed(jpeg, jpeg.size() / 2, {0xff, 0xc4, 0, 3, 9, 9})); });
  expect_picture_error("damaged JPEG data: Bogus marker length", [&] {
    read(changed(jpeg, find(jpeg, {0xff, 0xdb}) + 2, {0, 1}));
  });
  const Bytes png = picture_file("rgb.png");
  const size_t data = find(png, {'I', 'D', 'A', 'T'});
  expect_picture_error("wrong checksum in the chunk IDAT",
                       [&] { read(changed(png, data + 20, {png[data + 20] ^ 1})); });
  expect_picture_error("wrong checksum in the chunk IHDR", [&] { read(changed(png, 19, {png[19] ^ 1})); });
  expect_picture_error("a chunk has no name", [&] { read(changed(png, data, {0, 0})); });
  // A box above the damage is checked too.
  const Bytes bad = changed(png, png.size() - 20, {png[png.size() - 20] ^ 1});
  expect_picture_error("wrong checksum", [&] { decode_box(bad, {0, 0, 1, 1}); });
  const Bytes webp = picture_file("lossless.webp");
  expect_picture_error("damaged WebP data: its chunks are not those of a picture", [&] {
    read(changed(webp, 12, {'V', 'P', '9'}));
  });
  expect_picture_error("damaged WebP data: its pixels cannot be decoded", [&] {
    read(changed(webp, 40, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}));
  });
}

TEST(DamagedPicture, Unsupported) {
  const Bytes jpeg = picture_file("sampling-1x1.jpg");
  const size_t frame = find(jpeg, {0xff, 0xc0});
  expect_picture_error("JPEG with 12 bits a sample is not supported; libjpeg-turbo 3 converts it",
                       [&] { read(changed(jpeg, frame + 4, {12})); });
  expect_picture_error("lossless JPEG is not supported", [&] { read(changed(jpeg, frame + 1, {0xc3})); });
  expect_picture_error("hierarchical JPEG is not supported", [&] { read(changed(jpeg, frame + 1, {0xc5})); });
  expect_picture_error("more than 178956970 are not read", [&] { read(changed(jpeg, frame + 5, {0xf0, 0, 0xf0, 0})); });
  const Bytes png = picture_file("rgb.png");
  expect_picture_error("100000 x 10000000 pixels, more than", [&] {
    read_picture_header(changed(png, 16, {0, 1, 0x86, 0xa0, 0, 0x98, 0x96, 0x80}), true);
  });
}

TEST(DamagedPicture, WebPFramesLieInThePicture) {
  const Bytes animated = picture_file("animated.webp");  // its canvas stands at 24: 30 x 20, less one each
  expect_picture_error("20000 x 10000 pixels, more than 178956970 are not read", [&] {
    read_picture_header(changed(animated, 24, {0x1f, 0x4e, 0, 0x0f, 0x27, 0}), true);
  });
  expect_picture_error("damaged WebP data", [&] { read(changed(animated, 24, {25})); });
  EXPECT_EQ(decode_all(changed(animated, 24, {26})).size(), 27u * 20 * 3);
}

// Any number of scans may repeat a component, so time is limited by their number.
TEST(DamagedPicture, TooManyScans) {
  const Bytes file = picture_file("separate-scans.jpg");
  const size_t first = find(file, {0xff, 0xda});
  const Bytes rest(file.begin() + static_cast<std::ptrdiff_t>(first) + 2, file.end());
  const size_t second = first + 2 + find(rest, {0xff, 0xc4});
  const Bytes scan(file.begin() + static_cast<std::ptrdiff_t>(first),
                   file.begin() + static_cast<std::ptrdiff_t>(second));
  const auto repeated = [&](int times) {
    Bytes result = file;
    for (int i = 0; i < times; ++i)
      result.insert(result.begin() + static_cast<std::ptrdiff_t>(first), scan.begin(), scan.end());
    return result;
  };
  EXPECT_EQ(decode_all(repeated(3)), decode_all(file));
  expect_picture_error("the JPEG has more than 500 scans", [&] { read(repeated(510)); });
}

// The caller reads the header, and the pixels later.
TEST(DamagedPicture, ChangedMeanwhile) {
  Bytes pixels(9);
  const Geometry corner = {{0, 0, 1, 1}, {1, 1}, {0, 0, 1, 1}};
  PictureDecoder decoder({});
  const auto decode = [&](const char* before, const char* now) {
    return [&, before, now] {
      const PictureHeader header = read_picture_header(picture_file(before), true);
      decoder.decode(picture_file(now), header, corner, std::span(pixels).first(3));
    };
  };
  for (const auto& [before, now] : {std::pair("small-1x1.jpg", "one.jpg"),
                                    {"small-1x1.jpg", "grey.jpg"},
                                    {"rgb.png", "interlaced-thin.png"},
                                    {"lossy.webp", "lossy-alpha.webp"}})
    expect_picture_error("it has changed since its header was read", decode(before, now));
  expect_picture_error("not a PNG file", decode("rgb.png", "one.jpg"));
  expect_picture_error("Not a JPEG file", decode("one.jpg", "rgb.png"));
  expect_picture_error("not a WebP file", decode("lossy.webp", "rgb.png"));
  decode("rgb.png", "rgb-trns.png")();  // and a good file can be read after all these
}

}  // namespace
}  // namespace ddp
