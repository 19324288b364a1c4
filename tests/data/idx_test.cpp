#include "data/idx.h"

#include "tests/data/idx_files.h"
#include "tests/expect_error.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kImages = 0x803, kLabels = 0x801;

// Three images of 2 x 4 pixels. Pixel p of image i is 100 * i + p.
class Idx : public ::testing::Test {
 protected:
  static Bytes pixels(int images) {
    Bytes bytes;
    for (int i = 0; i < images; ++i)
      for (int p = 0; p < 8; ++p) bytes.push_back(static_cast<uint8_t>(100 * i + p));
    return bytes;
  }
  Bytes image_bytes() const { return idx_bytes(kImages, {3, 2, 4}, pixels(3)); }
  Bytes label_bytes() const { return idx_bytes(kLabels, {3}, {4, 0, 9}); }

  void expect_bad_images(const fs::path& file, std::vector<std::string> parts) const {
    expect_bad(file, folder_.plain("good-labels", label_bytes()), file, parts);
  }
  void expect_bad_labels(const fs::path& file, std::vector<std::string> parts) const {
    expect_bad(folder_.plain("good-images", image_bytes()), file, file, parts);
  }

  IdxFolder folder_;

 private:
  static void expect_bad(const fs::path& images, const fs::path& labels, const fs::path& named,
                         const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
      expect_error(Exit::data, {named.string() + ":", part}, [&] { read_idx(images, labels, 10); });
  }
};

TEST_F(Idx, ReadsPlainAndGzippedFiles) {
  const std::unique_ptr<Dataset> sets[] = {
      read_idx(folder_.plain("i", image_bytes()), folder_.plain("l", label_bytes()), 10),
      read_idx(folder_.gzipped("i.gz", image_bytes()), folder_.gzipped("l.gz", label_bytes()), 10)};
  for (const std::unique_ptr<Dataset>& data : sets) {
    EXPECT_EQ(data->size(), 3);
    EXPECT_EQ(data->image_shape(), (ImageShape{2, 4, 1}));
    EXPECT_EQ(data->classes(), 10);
    for (int i = 0; i < 3; ++i) {
      Bytes image(8);
      data->read({i}, image);
      for (int p = 0; p < 8; ++p) EXPECT_EQ(image[p], 100 * i + p);
    }
    EXPECT_EQ(data->label(0), 4);
    EXPECT_EQ(data->label(1), 0);
    EXPECT_EQ(data->label(2), 9);
    EXPECT_THROW(data->label(3), Error);
  }
}

// The content is many times larger than the gzipped file, so the reader's memory must grow.
TEST_F(Idx, ReadsHighlyCompressedFiles) {
  const Bytes zeros(5'000 * 32 * 32);
  const auto data = read_idx(folder_.gzipped("i.gz", idx_bytes(kImages, {5'000, 32, 32}, zeros)),
                             folder_.gzipped("l.gz", idx_bytes(kLabels, {5'000}, Bytes(5'000, 1))), 10);
  EXPECT_EQ(data->size(), 5'000);
  Bytes image(32 * 32, 1);
  data->read({4'999}, image);
  EXPECT_EQ(image, Bytes(32 * 32));
}

TEST_F(Idx, ReadsConcatenatedGzipStreams) {
  const Bytes whole = image_bytes();
  Bytes packed;
  for (const Bytes& part :
       {Bytes(whole.begin(), whole.begin() + 21), Bytes(whole.begin() + 21, whole.end()), Bytes()}) {
    const Bytes member = folder_.content(folder_.gzipped("part.gz", part));
    packed.insert(packed.end(), member.begin(), member.end());
  }
  EXPECT_EQ(read_idx(folder_.plain("i.gz", packed), folder_.plain("l", label_bytes()), 10)->size(), 3);
  packed.push_back('x');
  expect_bad_images(folder_.plain("i.gz", packed), {"its gzip stream ends early"});
  packed.push_back('x');
  expect_bad_images(folder_.plain("i.gz", packed), {"corrupt (incorrect header check)"});
}

TEST_F(Idx, MissingFile) { expect_bad_images(folder_.path() / "nowhere", {"cannot read it: No such file"}); }

TEST_F(Idx, UnreadableFile) { expect_bad_images(folder_.path(), {"is a folder, not a file"}); }

TEST_F(Idx, Fifo) {
  ASSERT_EQ(mkfifo((folder_.path() / "fifo").c_str(), 0600), 0);
  expect_bad_images(folder_.path() / "fifo", {"is a FIFO, not a file"});
}

TEST_F(Idx, MoreDataThanMemoryAllows) {
  const fs::path images = folder_.gzipped("i.gz", idx_bytes(kImages, {1 << 10, 1 << 10, 1 << 10}, {}));
  const fs::path labels = folder_.plain("l", label_bytes());
  expect_error(Exit::data, {"claims 1024 MiB of data", "may use 1023 MiB"},
               [&] { read_idx(images, labels, 10, (int64_t{1} << 30) - 1); });
  expect_error(Exit::data, {"truncated"}, [&] { read_idx(images, labels, 10, int64_t{1} << 30); });
}

TEST_F(Idx, OtherKindOfFile) {
  expect_bad_images(folder_.gzipped("l.gz", label_bytes()), {"holds labels, not images", "00000801"});
  expect_bad_labels(folder_.plain("i", image_bytes()), {"holds images, not labels", "00000803"});
  expect_bad_images(folder_.plain("html", {'<', 'h', 't', 'm', 'l', '>'}), {"something else, not images", "3c68746d"});
  expect_bad_images(folder_.plain("float", idx_bytes(0xD03, {3, 2, 4}, Bytes(96))), {"something else", "00000d03"});
}

TEST_F(Idx, TruncatedFile) {
  Bytes bytes = image_bytes();
  bytes.pop_back();
  expect_bad_images(folder_.plain("i", bytes), {"truncated", "24 bytes", "it has 23;"});
  expect_bad_images(folder_.gzipped("i.gz", bytes), {"truncated", "24 bytes", "it has 23;"});
  bytes.resize(16);
  expect_bad_images(folder_.plain("i", bytes), {"24 bytes", "it has 0;"});
  for (size_t size : {15, 4, 3, 0}) {
    bytes.resize(size);
    expect_bad_images(folder_.plain("i", bytes), {"truncated within its header"});
  }
  expect_bad_labels(folder_.plain("l", idx_bytes(kLabels, {3}, {1, 2})), {"truncated", "3 bytes", "it has 2;"});
}

TEST_F(Idx, TrailingBytes) {
  Bytes bytes = image_bytes();
  bytes.push_back(0);
  expect_bad_images(folder_.plain("i", bytes), {"more than the 24 bytes"});
  expect_bad_images(folder_.gzipped("i.gz", bytes), {"more than the 24 bytes"});
  expect_bad_labels(folder_.plain("l", idx_bytes(kLabels, {3}, {1, 2, 3, 4})), {"more than the 3 bytes"});
}

TEST_F(Idx, CorruptGzip) {
  const Bytes packed = folder_.content(folder_.gzipped("i.gz", image_bytes()));
  Bytes wrong_crc = packed;
  wrong_crc[packed.size() - 8] ^= 1;
  expect_bad_images(folder_.plain("crc.gz", wrong_crc), {"corrupt (incorrect data check)"});
  Bytes wrong_length = packed;
  wrong_length[packed.size() - 4] ^= 1;
  expect_bad_images(folder_.plain("length.gz", wrong_length), {"corrupt (incorrect length check)"});
  Bytes wrong_block = packed;
  wrong_block[10] |= 6;
  expect_bad_images(folder_.plain("block.gz", wrong_block), {"corrupt (invalid block type)"});
  for (size_t lost : {1, 4, 8, 12}) {
    const Bytes broken(packed.begin(), packed.end() - static_cast<std::ptrdiff_t>(lost));
    expect_bad_images(folder_.plain("short.gz", broken), {"truncated, its gzip stream ends early"});
  }
}

TEST_F(Idx, AbsurdDimensions) {
  const uint32_t most = ~0u;
  for (const Bytes& bytes :
       {idx_bytes(kImages, {0, 2, 4}, {}), idx_bytes(kImages, {3, 0, 4}, {}), idx_bytes(kImages, {3, 2, 0}, {}),
        idx_bytes(kImages, {most, most, most}, pixels(3)), idx_bytes(kImages, {most, most, 1}, pixels(3))})
    expect_bad_images(folder_.plain("i", bytes), {"which is impossible"});
  expect_bad_labels(folder_.plain("l", idx_bytes(kLabels, {0}, {})), {"0 labels"});
}

// The header claims 2^62 bytes, which cannot be allocated. So the reader must not allocate what the header claims.
TEST_F(Idx, ClaimedSizesAreNotAllocated) {
  expect_bad_images(folder_.plain("i", idx_bytes(kImages, {1u << 30, 1u << 16, 1u << 16}, pixels(3))),
                    {"claims 4611686018427387904 bytes", "it has 24;"});
  expect_bad_images(folder_.gzipped("i.gz", idx_bytes(kImages, {1u << 30, 1u << 16, 1u << 16}, pixels(3))),
                    {"claims 4611686018427387904 bytes", "it has 24;"});
}

TEST_F(Idx, LabelOutOfRange) {
  expect_bad_labels(folder_.plain("l", idx_bytes(kLabels, {3}, {9, 10, 255})),
                    {"label of sample 1 is 10", "10 classes"});
}

TEST_F(Idx, CountsThatDiffer) {
  const fs::path images = folder_.plain("i", image_bytes());
  const fs::path labels = folder_.plain("l", idx_bytes(kLabels, {2}, {1, 2}));
  expect_error(Exit::data, {images.string() + " holds 3 images", labels.string() + " holds 2 labels"},
               [&] { read_idx(images, labels, 10); });
}

}  // namespace
}  // namespace ddp
