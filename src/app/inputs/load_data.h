// The data that a run trains and evaluates on.
#pragma once

#include "app/inputs/data_config.h"
#include "app/inputs/reading.h"
#include "checkpoint/run_state.h"
#include "comm/communicator.h"
#include "comm/mpi/session.h"
#include "core/log.h"
#include "data/dataset.h"
#include "data/exclusions.h"
#include "ops/input_transform.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// What a resumed run knows of its pictures. The defaults: a new run.
struct ResumedPictures {
  const PicturesState* pictures = nullptr;
  int64_t next_step = 1;                  // of the run, from 1
  std::filesystem::path run_folder = {};  // rank 0
};

struct LoadedData {
  Datasets data;
  std::string kind;                             // --dataset, never "auto"
  uint64_t fingerprint = 0;                     // of the data and of the vocabulary; the same on all ranks
  std::unique_ptr<Dataset> measured;            // training pictures with the transform of validation; null: data.train
  std::string transforms;                       // for the banner and the resume; empty: images as they are
  TransformConfig validation = {};              // of pictures
  DecodeConfig decode = {};                     // of pictures
  std::vector<std::string> class_names;         // empty: the classes have numbers only
  Augmentation augmentation = {};               // resolved
  AutoAugmentConfig auto_augment = {};          // resolved; data.train is augmented so
  PixelStatistics pixels = {};                  // resolved: measured, none or given
  int workers = 1;                              // decoding threads of this rank
  std::vector<std::string> notes;               // what the user should know about the data
  std::string meant;                            // as PictureLists::meant
  std::map<std::string, std::string> listings;  // file name, content: what the output folder gets

  // Of pictures in files, else none: those that are no samples, and those that this process finds.
  std::optional<PicturesState> pictures = {};
  std::unique_ptr<Exclusions> train_exclusions = {}, test_exclusions = {};
  bool excludes = false;  // pictures that cannot be read are excluded; false: they end the run

  // What happens to an image before the network reads it, normalization excepted. Empty: nothing.
  std::string input() const;
};

// Such as "images of 32 x 32 x 3", or "windows of 1024 tokens of a vocabulary of 50257".
std::string describe_samples(const Dataset& data);

// Whether the data are pictures in files. Throws Error(Exit::data).
bool reads_pictures(const DataConfig& config);

// Opens, checks and describes the data. Collective. Tells `reading` of its progress. Throws CollectiveError:
// Exit::usage for options that do not fit the data, Exit::data for missing or broken files, with their paths, and for
// hosts that see different files, Exit::communication if the ranks see other differences.
LoadedData load_data(const DataConfig& config, uint64_t seed, MpiSession& session, Communicator& world, const Log& log,
                     const Reading& reading = {}, const ResumedPictures& resumed = {});

// Mean and standard deviation as scale and shift. `pixels` is one of none, given and measured; measured reads up to
// 10,000 samples, shared out over the ranks; collective. Returns the statistics as given, for the run state and the
// model's metadata.
struct PixelNormalization {
  PixelScale scale = {};
  std::vector<double> mean, std;  // empty: pixels are only divided by 255
  bool measured = false;
  std::string hint = {};     // narrow_range_hint() of the measured values
  std::string text() const;  // such as "0.49,0.48,0.45 / 0.25,0.24,0.26", exact; empty: neither
};
PixelNormalization measure_pixels(const LoadedData& loaded, MpiSession& session, Communicator& world,
                                  const Reading& reading = {});
PixelNormalization normalization_of(const PixelStatistics& given);
PixelNormalization normalization_from(const std::string& text,
                                      int64_t channels);  // of text(); throws Error(Exit::data)

}  // namespace ddp
