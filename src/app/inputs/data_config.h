// Which data a run trains on, and what becomes of an image before the network reads it.
#pragma once

#include "app/inputs/token_sizes.h"
#include "data/augment/policy.h"
#include "data/check_pictures.h"
#include "data/codec/picture.h"
#include "data/token_file.h"
#include "data/transform.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// Mean and standard deviation of the pixels, as shares of 255.
struct PixelStatistics {
  // measured: from the training data; none: pixels are only divided by 255.
  enum class Kind : uint8_t { automatic, measured, none, imagenet, cifar10, given };
  Kind kind = Kind::automatic;              // automatic: measured for pictures, cifar10 for CIFAR, else none
  std::vector<double> mean = {}, std = {};  // given: one value, or one for each channel
};

struct InputConfig {
  // 0: 224, 256 and 224 for pictures of different sizes; else the size of the images.
  int64_t train_crop = 0, val_resize = 0, val_crop = 0;
  Interpolation interpolation = Interpolation::bilinear;
  std::optional<TransformConfig::Kind> transform =
      {};  // of training; none: rrc, or no transform if all sizes are equal
  std::vector<double> rrc_scale = {0.08, 1}, rrc_ratio = {0.75, 1.3333};
  int crop_padding = 0;
  bool reflect = false;
  std::optional<double> hflip = {};  // none: 0.5 for pictures that are cropped, else 0
  bool alternate_flip = false;
  AutoAugmentConfig::Policy auto_augment = AutoAugmentConfig::Policy::none;
  int ra_magnitude = 9;
  double random_erase = 0;  // probability
  PixelStatistics pixels = {};
  int channels = 0;  // 0: 1 if all pictures are grey, else 3
  bool exif = true;
  Alpha alpha = Alpha::drop;
};

// For data that a trained network is evaluated on, not trained.
struct EvaluatedInput {
  bool tokens = false;  // else images
  TransformConfig transform = {};
  DecodeConfig decode = {};
};

struct DataConfig {
  std::string name = "auto";  // auto: what `path` holds; without a path Fashion-MNIST
  std::string path = {};      // folder of the files, or a file of tokens; empty: that of the data set's Debian package
  std::string labels = {};    // CSV file
  double val_split = 0;       // share of each class; 0: none
  bool coarse_labels = false;
  int64_t train_samples = 0;    // 0: all
  int64_t sequence_length = 0;  // of tokens; 0: default_sequence_length
  int64_t default_sequence_length = kSequenceLength;
  int64_t vocabulary_size = 0;  // of tokens; 0: that of `vocabulary`, else kGpt2Vocabulary
  std::string vocabulary = {};  // of the text of the tokens: a file, or "bytes"; empty: not known
  std::optional<TokenType> token_type = {};
  int workers = 0;  // decoding threads of a rank; 0: its share of the cores
  CheckData check = CheckData::automatic;
  bool skip_broken = false;
  InputConfig input = {};
  // If given, it replaces `input`, and only validation pictures are read: all pictures where there are none.
  std::optional<EvaluatedInput> evaluated = {};
};

}  // namespace ddp
