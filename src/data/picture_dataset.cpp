#include "data/picture_dataset.h"

#include "core/error.h"
#include "core/printable.h"

#include <algorithm>
#include <utility>

namespace ddp {

struct PictureDataset::Worker {
  explicit Worker(const DecodeConfig& config) : decoder(config) {}
  int64_t picture = 0;
  std::vector<uint8_t> file;
  PictureDecoder decoder;
};

PictureDataset::PictureDataset(PictureList list, const std::filesystem::path& root, const TransformConfig& transform,
                               const DecodeConfig& decode, const std::vector<int64_t>& left_out)
    : list_(std::move(list)), files_(root), transform_(transform), decode_(decode) {
  for (int i = 0; i < list_.classes(); ++i) class_names_.emplace_back(list_.class_name(i));
  pictures_.reserve(static_cast<size_t>(list_.size()));
  for (int64_t i = 0; i < list_.size(); ++i)
    if (!std::ranges::binary_search(left_out, i)) pictures_.push_back(static_cast<int32_t>(i));
}

PictureDataset::~PictureDataset() = default;

int64_t PictureDataset::picture(int64_t index) const {
  DDP_EXPECT(index >= 0 && index < size());
  return pictures_[index];
}

int32_t PictureDataset::label(int64_t index) const { return list_.label(picture(index)); }

int PictureDataset::bits(int64_t index) const {
  const int64_t i = picture(index);
  std::vector<uint8_t> file;
  files_.read(list_.path(i), {.bytes = list_.bytes(i), .mtime_ns = list_.mtime_ns(i)}, file);
  try {
    return read_picture_header(file, false).bits;
  } catch (const PictureError& e) {
    fail(Exit::data, "{}: {}", path(index), e.what());
  }
}

std::string PictureDataset::path(int64_t index) const {
  return printable(files_.full(list_.path(picture(index))).native());
}

std::unique_ptr<PictureDataset::Worker> PictureDataset::take_worker(int64_t picture) const {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) idle_.push_back(std::make_unique<Worker>(decode_));
  auto worker = std::move(idle_.back());
  idle_.pop_back();
  worker->picture = picture;
  busy_.push_back(worker.get());
  return worker;
}

void PictureDataset::give_back(std::unique_ptr<Worker> worker) const {
  const std::lock_guard lock(mutex_);
  std::erase(busy_, worker.get());
  idle_.push_back(std::move(worker));
}

std::string PictureDataset::being_read() const {
  const std::lock_guard lock(mutex_);
  return busy_.empty() ? "" : printable(files_.full(list_.path(busy_.front()->picture)).native());
}

void PictureDataset::read(const SampleKey& key, std::span<uint8_t> pixels) const {
  DDP_EXPECT(static_cast<int64_t>(pixels.size()) == image_shape().elements());
  const int64_t i = picture(key.index);
  const auto give = [this](Worker* used) { give_back(std::unique_ptr<Worker>(used)); };
  const std::unique_ptr<Worker, decltype(give)> worker(take_worker(i).release(), give);
  files_.read(list_.path(i), {.bytes = list_.bytes(i), .mtime_ns = list_.mtime_ns(i)}, worker->file);
  try {
    const PictureHeader header = read_picture_header(worker->file, decode_.exif);
    require(transform_.kind != TransformConfig::Kind::none || header.size == transform_.crop, Exit::data,
            "{} has {} x {} pixels, the other pictures have {} x {}; give --train-transform rrc, or another one that "
            "makes their sizes equal",
            path(key.index), header.size.w, header.size.h, transform_.crop.w, transform_.crop.h);
    worker->decoder.decode(worker->file, header, geometry_of(transform_, header.size, key), pixels);
  } catch (const PictureError& e) {
    fail(Exit::data, "{}: {}", path(key.index), e.what());
  }
}

void PictureDataset::announce(std::span<const int64_t> indices) const {
  for (const int64_t index : indices) files_.announce(list_.path(picture(index)));
}

}  // namespace ddp
