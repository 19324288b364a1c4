// Pictures in files as a data set: read, cut, resized and decoded whenever a sample is read.
#pragma once

#include "data/codec/picture.h"
#include "data/dataset.h"
#include "data/folder_reader.h"
#include "data/picture_list.h"
#include "data/transform.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace ddp {

class PictureDataset final : public Dataset {
 public:
  // `list`: paths below `root`. `left_out`: indices of pictures that are not samples, ascending.
  PictureDataset(PictureList list, const std::filesystem::path& root, const TransformConfig& transform,
                 const DecodeConfig& decode, const std::vector<int64_t>& left_out = {});
  ~PictureDataset() override;

  int64_t size() const override { return static_cast<int64_t>(pictures_.size()); }
  ImageShape image_shape() const override { return {transform_.crop.h, transform_.crop.w, decode_.channels}; }
  int classes() const override { return static_cast<int>(class_names_.size()); }
  std::span<const std::string> class_names() const override { return class_names_; }

  // Throws Error(Exit::data) with the path if the file cannot be read or decoded.
  void read(const SampleKey& key, std::span<uint8_t> pixels) const override;
  int32_t label(int64_t index) const override;
  int64_t picture(int64_t index) const override;
  int bits(int64_t index) const override;
  bool in_memory() const override { return false; }
  std::string being_read() const override;
  void announce(std::span<const int64_t> indices) const override;

  std::string path(int64_t index) const;  // for messages: printable

 private:
  struct Worker;  // the buffers of one thread
  std::unique_ptr<Worker> take_worker(int64_t picture) const;
  void give_back(std::unique_ptr<Worker> worker) const;

  const PictureList list_;
  const FolderReader files_;
  const TransformConfig transform_;
  const DecodeConfig decode_;
  std::vector<std::string> class_names_;
  std::vector<int32_t> pictures_;  // position of each sample in the list

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Worker>> idle_;
  mutable std::vector<const Worker*> busy_;  // the one that began first is the first
};

}  // namespace ddp
