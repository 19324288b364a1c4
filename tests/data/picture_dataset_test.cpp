// Pictures through data set, sampler and loader: every world and every number of threads sees the same pixels.
#include "data/picture_dataset.h"

#include "core/error.h"
#include "data/check_pictures.h"
#include "data/folder.h"
#include "data/loader.h"
#include "data/pixel_sums.h"
#include "data/subset.h"
#include "device/cpu/device.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;
using Kind = TransformConfig::Kind;

// Two classes of links to pictures of all kinds, sizes and orientations.
class Pictures : public ::testing::Test {
 protected:
  Pictures() {
    int number = 0;
    for (const char* name :
         {"rgb.jpg", "sampling-2x2.jpg", "grey.jpg", "exif-6.jpg", "cmyk.jpg", "rgba.png", "palette-4.png",
          "grey-16.png", "progressive.jpg", "tall.png", "sampling-grey.jpg", "lossy-alpha.webp"}) {
      const std::string picture = std::string(name).ends_with("jpg") ? ".jpg" : ".png";
      for (int copy = 0; copy < 3; ++copy, ++number)
        link(name, (number % 2 ? "train/dog/" : "train/cat/") + std::to_string(number) + picture);
    }
  }

  void link(const char* picture, const std::string& name) const {
    fs::create_directories((folder / name).parent_path());
    fs::create_symlink(fs::path(DDP_PICTURES) / picture, folder / name);
  }
  PictureList list() const { return list_folder(folder.path()).train; }
  PictureDataset data(const TransformConfig& transform = kCrops, const std::vector<int64_t>& left_out = {}) const {
    return {list(), folder.path(), transform, DecodeConfig{}, left_out};
  }

  static constexpr TransformConfig kCrops = {.kind = Kind::rrc, .crop = {12, 10}, .seed = 3};
  const TempFolder folder;
  const std::unique_ptr<Device> memory = make_cpu_device();
};

using Image = std::vector<uint8_t>;

TEST_F(Pictures, AreTheSameInEveryWorldAndWithAnyNumberOfThreads) {
  const PictureDataset pictures = data();
  ASSERT_EQ(pictures.size(), 36);
  std::map<std::pair<int64_t, int64_t>, Image> seen;  // by epoch and sample
  const auto image = static_cast<size_t>(pictures.image_shape().elements());
  const auto compare = [&](const std::vector<double>& weights, int workers) {
    size_t count = 0;
    for (int rank = 0; rank < static_cast<int>(weights.size()); ++rank) {
      const DistributedSampler order(33, 7, Order::shuffled, 1, rank, weights);
      Loader loader(pictures, order, 0, 2 * order.steps_per_epoch(), *memory, {.workers = workers});
      for (int64_t step = 0; step < 2 * order.steps_per_epoch(); ++step) {
        const HostBatch& batch = loader.next();
        for (int64_t i = 0; i < batch.plan.size; ++i, ++count) {
          const Image pixels(batch.samples + i * image, batch.samples + (i + 1) * image);
          const auto [first, is_new] = seen.emplace(std::pair(batch.plan.epoch, int64_t{batch.ids[i]}), pixels);
          EXPECT_EQ(first->second, pixels) << "epoch " << batch.plan.epoch << " sample " << batch.ids[i];
        }
      }
    }
    EXPECT_EQ(count, 66u);
  };
  for (const int workers : {1, 2, 7}) compare({1}, workers);
  compare({1, 1}, 2);
  compare({1, 1, 1}, 1);
  compare({3, 1}, 7);
  compare({1, 1, 1, 1, 1}, 2);
  EXPECT_EQ(seen.size(), 66u);
  int different = 0;
  for (int64_t i = 0; i < 33; ++i) different += seen.at({0, i}) != seen.at({1, i});
  EXPECT_GE(different, 25);  // the other crops of small and plain pictures may be equal by chance
}

TEST_F(Pictures, OfOneSizeAreReadAsTheyAre) {
  const TempFolder one_size;
  fs::create_directories(one_size / "cat");
  fs::create_symlink(fs::path(DDP_PICTURES) / "rgb.png", one_size / "cat/a.png");
  const PictureDataset as_is(list_folder(one_size.path()).train, one_size.path(),
                             {.kind = Kind::none, .crop = {21, 14}}, DecodeConfig{});
  Image pixels(21 * 14 * 3), other(21 * 14 * 3);
  as_is.read({0, 0}, pixels);
  as_is.read({0, 5}, other);
  EXPECT_EQ(pixels, other);
  const PictureDataset wrong(list_folder(one_size.path()).train, one_size.path(),
                             {.kind = Kind::none, .crop = {20, 14}}, DecodeConfig{});
  try {
    wrong.read({0, 0}, {pixels.data(), 20 * 14 * 3});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::data);
    EXPECT_NE(std::string(e.what()).find("cat/a.png has 21 x 14 pixels, the other pictures have 20 x 14"),
              std::string::npos)
        << e.what();
  }
}

// The message of reading sample `index`.
std::string refusal(const PictureDataset& pictures, int64_t index) {
  Image pixels(static_cast<size_t>(pictures.image_shape().elements()));
  try {
    pictures.read({index, 0}, pixels);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::data);
    return e.what();
  }
  return "";
}

TEST_F(Pictures, ThatChangeOrVanishAreNamed) {
  for (const char* name : {"gone", "longer", "touched", "pipe"})
    folder.write(std::string("train/cat/z-") + name + ".jpg");
  const PictureDataset pictures = data();
  int64_t last = 0;
  while (pictures.path(last).find("z-") == std::string::npos) ++last;  // gone, longer, pipe, touched
  fs::remove(folder / "train/cat/z-gone.jpg");
  folder.write("train/cat/z-longer.jpg", "more than one byte");
  fs::remove(folder / "train/cat/z-pipe.jpg");
  ASSERT_EQ(mkfifo((folder / "train/cat/z-pipe.jpg").c_str(), 0600), 0);
  fs::last_write_time(folder / "train/cat/z-touched.jpg", fs::file_time_type() + std::chrono::hours(1));
  const std::string gone = refusal(pictures, last), longer = refusal(pictures, last + 1),
                    pipe = refusal(pictures, last + 2), touched = refusal(pictures, last + 3);
  EXPECT_NE(gone.find("z-gone.jpg: No such file or directory"), gone.npos) << gone;
  EXPECT_NE(longer.find("z-longer.jpg has changed since this run listed its data (1 bytes then, 18 now)"), longer.npos)
      << longer;
  EXPECT_NE(pipe.find("z-pipe.jpg is a FIFO, not a file"), pipe.npos) << pipe;
  EXPECT_NE(touched.find("z-touched.jpg has changed"), touched.npos) << touched;
}

TEST_F(Pictures, AreCheckedByHeaderOrWhole) {
  const std::string good = [] {
    std::ifstream file(fs::path(DDP_PICTURES) / "rgb.jpg", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  folder.write("train/cat/z1-empty.jpg", "");
  folder.write("train/cat/z2-page.jpg", "<!DOCTYPE html><html>not found</html>");
  folder.write("train/cat/z3-cut.jpg", good.substr(0, good.size() * 3 / 4));
  const PictureList files = list();
  const FolderReader reader(folder.path());
  const auto check = [&](CheckData how, int part, int parts, int workers, int64_t limit = 1 << 30) {
    return check_pictures(files, reader, how, true, part, parts, workers, limit);
  };
  const auto names = [&](const PictureFacts& facts) {
    std::string all;
    for (const auto& [picture, reason] : facts.broken) all += std::string(files.path(picture).substr(10, 2)) + " ";
    return all;
  };
  const PictureFacts headers = check(CheckData::headers, 0, 1, 1);
  EXPECT_EQ(names(headers), "z1 z2 ");
  EXPECT_EQ(headers.pictures, 37);  // the cut one has a header
  EXPECT_EQ(headers.smallest, (PictureSize{1, 14}));
  EXPECT_EQ(headers.largest, (PictureSize{150, 5000}));
  EXPECT_GT(headers.grey, 6);
  EXPECT_FALSE(headers.one_size());
  EXPECT_TRUE(headers.content.empty());
  for (const int workers : {1, 3}) {
    PictureFacts whole;
    for (const int part : {2, 0, 1}) whole.merge(check(CheckData::full, part, 3, workers));
    EXPECT_EQ(names(whole), "z1 z2 z3 ");
    EXPECT_EQ(whole.pictures, 36);
    EXPECT_EQ(whole.content.size(), 36u);
    std::set<uint64_t> different;
    for (const auto& [hash, picture] : whole.content) different.insert(hash);
    EXPECT_EQ(different.size(), 12u);
  }
  try {
    check(CheckData::headers, 0, 1, 3, 20'000);
    ADD_FAILURE();
  } catch (const Error& e) {  // not a broken picture: another number of workers may read it
    EXPECT_EQ(e.code(), Exit::usage);
    EXPECT_NE(std::string(e.what()).find("give fewer --workers"), std::string::npos) << e.what();
  }
  folder.write("train/cat/z2-page.jpg", "changed");
  EXPECT_THROW(check(CheckData::headers, 0, 1, 1), Error);

  const PictureDataset without = data(kCrops, {0, 5});
  EXPECT_EQ(without.size(), files.size() - 2);
  EXPECT_EQ(without.path(0), (folder / std::string(files.path(1))).string());
  EXPECT_EQ(without.path(4), (folder / std::string(files.path(6))).string());
}

TEST(PictureFacts, ReachOtherRanks) {
  PictureFacts facts{
      .pictures = int64_t{1} << 40, .grey = 2, .animated = 1, .smallest = {3, 4}, .largest = {50'000, 6}};
  facts.broken = {{0, "first\n\xff"}, {7, std::string(300, 'x')}, {2'147'483'646, "not told"}};
  facts.content = {{1, 2}};
  const PictureFacts got = PictureFacts::unpack(facts.pack(2));
  EXPECT_EQ(got.pictures, facts.pictures);
  EXPECT_EQ(got.grey, 2);
  EXPECT_EQ(got.animated, 1);
  EXPECT_EQ(got.smallest, facts.smallest);
  EXPECT_EQ(got.largest, facts.largest);
  const decltype(facts.broken) told = {{0, "first\n\xff"}, {7, std::string(200, 'x')}, {2'147'483'646, ""}};
  EXPECT_EQ(got.broken, told);
  EXPECT_TRUE(got.content.empty());

  using Pairs = PictureFacts::Pairs;
  const Pairs a = {{1, 9}, {4, 2}, {4, 5}, {UINT64_MAX, 2'147'483'646}}, b = {{0, 9}, {4, 3}, {4, 8}, {UINT64_MAX, 1}};
  EXPECT_EQ(unpack_pairs(pack_pairs(a)), a);
  EXPECT_EQ(equal_content(a, b), (Pairs{{2, 3}, {5, 3}, {2'147'483'646, 1}}));
  EXPECT_TRUE(equal_content(a, {}).empty());
}

// The bytes that this process has read from files so far.
int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  int64_t bytes = -1;
  file >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

// Their heads may be long, their pixels are not read; but a PNG has its end, and may be turned behind its pixels. A
// WebP tells its length.
TEST(LargePictures, AreCheckedByTheirEnds) {
  constexpr size_t kLarge = 4 << 20;
  const auto file_of = [](const char* name) {
    std::ifstream file(fs::path(DDP_PICTURES) / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string jpeg = file_of("exif-6.jpg"), png = file_of("rgb.png");  // 17 x 23, upright; 21 x 14
  const std::string pixels("\0\x40\0\0IDAT", 8), segment("\xff\xe9\xff\xff", 4);
  const std::string start = png.substr(0, 33) + pixels + std::string(kLarge, 'x') + "crc?",
                    end = png.substr(png.size() - 12);
  const std::string turned =
      "\x1a"
      "eXIf"
      "MM" +
      std::string("\0\x2a\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0", 24) + "crc?";

  const auto check = [](const std::string& content, int64_t most_bytes) {
    const TempFolder folder;
    folder.write("train/a/1.jpg", content);
    const PictureList list = list_folder(folder.path()).train;
    const FolderReader files(folder.path());
    const int64_t before = bytes_read();
    PictureFacts facts = check_pictures(list, files, CheckData::headers, true, 0, 1, 1, 1 << 30);
    EXPECT_LE(bytes_read() - before, most_bytes);
    return facts;
  };
  const auto size = [](const PictureFacts& facts) { return std::pair(facts.largest.w, facts.largest.h); };
  constexpr int64_t kLittle = 40'000, kAll = 5'000'000;
  EXPECT_EQ(size(check(start + end, kLittle)), std::pair(int64_t{21}, int64_t{14}));
  EXPECT_EQ(size(check(start + std::string(3, '\0') + turned + end, kAll)), std::pair(int64_t{14}, int64_t{21}));
  EXPECT_EQ(check(start, kAll).broken.at(0).second, "the file is cut short");
  const std::string webp = "RIFF" + std::string("\x50\0\x40\0", 4) + "WEBPVP8L" + std::string("\x44\0\x40\0", 4) +
                           file_of("lossless.webp").substr(20, 20) + std::string(kLarge + 48, 'x');
  EXPECT_EQ(size(check(webp, kLittle)), std::pair(int64_t{23}, int64_t{17}));
  EXPECT_EQ(check(webp.substr(0, webp.size() - 1), kLittle).broken.at(0).second, "the file is cut short");
  EXPECT_EQ(size(check(jpeg + std::string(kLarge, 'x'), kLittle)), std::pair(int64_t{17}, int64_t{23}));
  std::string long_head = jpeg.substr(0, 2);
  for (int i = 0; i < 3; ++i) long_head += segment + std::string(65'533, 'x');
  EXPECT_EQ(size(check(long_head + jpeg.substr(2) + std::string(kLarge, 'x'), 400'000)),
            std::pair(int64_t{17}, int64_t{23}));
  EXPECT_EQ(check(std::string(kLarge, 'x'), kLittle).broken.size(), 1u);
}

TEST_F(Pictures, OfASubsetAreMixed) {
  const PictureDataset pictures = data({.kind = Kind::center, .crop = {9, 9}, .resize = 10});
  std::map<Image, std::set<int32_t>> labels;
  Image pixels(9 * 9 * 3);
  for (int64_t i = 0; i < pictures.size(); ++i) {
    pictures.read({i, 0}, pixels);
    labels[pixels].insert(pictures.label(i));
  }
  const Subset some(pictures, 12), all(pictures, 33);
  int dogs = 0, changes = 0;
  for (int64_t i = 0; i < 12; ++i) {
    some.read({i, 0}, pixels);
    EXPECT_TRUE(labels[pixels].contains(some.label(i)));
    EXPECT_EQ(some.label(i), all.label(i));
    dogs += some.label(i);
    changes += i > 0 && some.label(i) != some.label(i - 1);
  }
  EXPECT_GE(dogs, 3);
  EXPECT_LE(dogs, 9);
  EXPECT_GE(changes, 3);
  int64_t sum = 0;
  for (int64_t i = 0; i < 33; ++i) sum += all.label(i);
  EXPECT_EQ(sum, 16);  // each sample once
}

TEST_F(Pictures, HaveTheBitsOfTheirFiles) {
  const PictureDataset pictures = data();
  for (int64_t i = 0; i < pictures.size(); ++i) {
    const std::string target = fs::read_symlink(pictures.path(i));
    EXPECT_EQ(pictures.bits(i), target.ends_with("grey-16.png") ? 16 : 8) << target;
  }
}

TEST(NarrowRange, HasAHint) {
  for (const auto& [largest, bits, factor] :
       {std::tuple(16, 12, 16), std::tuple(32, 13, 8), std::tuple(4, 10, 64), std::tuple(1, 8, 256)}) {
    const std::string hint = narrow_range_hint(largest, 16);
    EXPECT_NE(hint.find(fmt::format("is {} of 255, as if they held {} bits: ", largest, bits)), hint.npos) << hint;
    EXPECT_TRUE(hint.ends_with(fmt::format("multiply the values in the files by {}", factor))) << hint;
  }
  EXPECT_EQ(narrow_range_hint(33, 16), "");
  EXPECT_EQ(narrow_range_hint(16, 8), "");
}

TEST_F(Pictures, HaveTheSameSumsInAnyParts) {
  const PictureDataset pictures = data({.kind = Kind::center, .crop = {9, 9}, .resize = 10});
  const std::vector<int64_t> all = chosen_samples(33, 100);
  const PixelSums whole = pixel_sums(pictures, all, 1);
  EXPECT_EQ(whole.pixels, 33u * 81);
  PixelSums parts = pixel_sums(pictures, std::span(all).first(20), 3);
  parts.add(pixel_sums(pictures, std::span(all).subspan(20), 2));
  EXPECT_EQ(parts.sum, whole.sum);
  EXPECT_EQ(parts.squares, whole.squares);
  double mean = 0, square = 0;
  uint8_t largest = 0;
  Image pixels(9 * 9 * 3);
  for (const int64_t i : all) {
    pictures.read({i, 0}, pixels);
    for (size_t k = 1; k < pixels.size(); k += 3) {
      mean += pixels[k] / 255.0 / (33 * 81);
      square += pixels[k] / 255.0 * pixels[k] / 255.0 / (33 * 81);
    }
    largest = std::max(largest, *std::ranges::max_element(pixels));
  }
  EXPECT_EQ(whole.largest, largest);
  EXPECT_EQ(parts.largest, largest);
  EXPECT_NEAR(whole.mean(3)[1], mean, 1e-12);
  EXPECT_NEAR(whole.deviation(3)[1], std::sqrt(square - mean * mean), 1e-12);

  const std::vector<int64_t> some = chosen_samples(1000, 100);
  EXPECT_TRUE(std::ranges::is_sorted(some));
  EXPECT_EQ(std::set<int64_t>(some.begin(), some.end()).size(), 100u);
  EXPECT_GT(some.back(), 900);
  EXPECT_EQ(chosen_samples(1000, 100), some);
}

}  // namespace
}  // namespace ddp
