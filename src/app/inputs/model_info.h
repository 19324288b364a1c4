// What a trained network reads and what its outputs mean. It is in the metadata of model.safetensors, so that this file
// alone is enough to use the network on a new picture.
//
// The metadata entry "ddp_train" is a JSON text, which model_info_in() reads. For other readers there are the entries
// "model" and "classes", and "mean" and "std" in the JSON text.
#pragma once

#include "checkpoint/safetensors.h"
#include "core/shape.h"
#include "data/codec/picture.h"
#include "data/transform.h"
#include "nn/model_file.h"
#include "ops/input_transform.h"
#include "ops/precision.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

struct ModelInfo {
  std::string model;                          // a name, which may be part of the name of a file
  std::string graph = {};                     // the text of its file (nn/model_file.h); empty: a built-in network
  ImageShape image;                           // that the network reads; of tokens {sequence_length, 1, 1}
  int64_t classes = 0;                        // of tokens, the size of the vocabulary
  std::vector<std::string> class_names = {};  // `classes` names, or none

  int64_t sequence_length = 0;                   // tokens that the network read in training; 0: it reads images
  std::optional<uint64_t> vocabulary_hash = {};  // of the text of the vocabulary; none: the run had no vocabulary

  // From here to `pixel_scale`: of images.
  TransformConfig::Kind kind = TransformConfig::Kind::center;  // of validation: center, stretch or none
  int64_t resize = 0;                                          // center: the shorter side after Resize, in pixels
  Interpolation interpolation = Interpolation::bilinear;
  bool exif = true;
  Alpha alpha = Alpha::drop;
  PixelScale pixel_scale = {};
  std::optional<Precision> precision = {};  // of --precision in the training; none: the device's default

  // The transform of validation, and what a decoder makes of a picture for it.
  TransformConfig transform() const {
    TransformConfig config;
    config.kind = kind;
    config.crop = {image.w, image.h};
    config.resize = resize;
    return config;
  }
  DecodeConfig decode() const {
    return {.channels = static_cast<int>(image.c), .exif = exif, .alpha = alpha, .interpolation = interpolation};
  }

  bool reads_tokens() const { return sequence_length > 0; }
  ModelFile source() const { return {.name = model, .text = graph, .built_in = graph.empty()}; }

  std::string class_name(int64_t k) const;  // its number where there are no names

  Metadata to_metadata() const;  // each class name as its stored_name()
};

// The name of a class as the metadata and the results have it: printable() if it is not UTF-8.
std::string stored_name(const std::string& name);

// None where the metadata have no entry "ddp_train". Throws Error(Exit::data) that names the file and what is missing
// or wrong in the entry.
std::optional<ModelInfo> model_info_in(const Metadata& metadata, const std::string& file);

// The statistics of ImageNet, as torchvision gives them.
inline const std::vector<double> kImageNetMean = {0.485, 0.456, 0.406}, kImageNetStd = {0.229, 0.224, 0.225};

// Scale and shift for pixels with these means and standard deviations, which are shares of 255: one of each, or one for
// each channel.
PixelScale pixel_scale_of(const std::vector<double>& mean, const std::vector<double>& std);

}  // namespace ddp
