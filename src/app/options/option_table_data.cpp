// Options of the data set, and of what becomes of an image before the network reads it.
#include "app/inputs/input_names.h"
#include "app/inputs/token_sizes.h"
#include "app/options/option_table.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace ddp {
namespace {

using Kind = TransformConfig::Kind;

constexpr int64_t kMostPixels = 16384;  // of a side of an image that a network reads
constexpr double kMostRatio = 1000;
constexpr OnResume kSameInput = {Effect::results, "input"};
constexpr OnResume kFixedInput = OnResume::fixed("the weights were trained on images that are made so", "input");
constexpr const char* kOfData = "the place in the epoch belongs to this data set";
constexpr OnResume kSameData = OnResume::fixed(kOfData, "data set");

Names<std::optional<Kind>> transforms_and_auto() {
  Names<std::optional<Kind>> names = {{"auto", std::nullopt}};
  names.insert(names.end(), kTransformNames.begin(), kTransformNames.end());
  return names;
}

void set_hflip(Options& o, const std::string& text) {
  InputConfig& input = o.data.input;
  double share = 0;
  input.alternate_flip = text == "alternate";
  if (text == "auto" || input.alternate_flip) return;
  require(CLI::detail::lexical_cast(text, share) && share >= 0 && share <= 1, Exit::usage,
          "--hflip {}: give auto, alternate, or a probability from 0 to 1", text);
  input.hflip = share;
}

std::vector<double> numbers_in(const std::string& name, const std::string& text, double least) {
  std::vector<double> numbers;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    double number = 0;
    require(CLI::detail::lexical_cast(part, number) && std::isfinite(number) && number >= least && number <= 1,
            Exit::usage, "{} {}: give one number, or one for each channel, such as 0.49,0.48,0.45, each up to 1", name,
            text);
    numbers.push_back(number);
  }
  require(numbers.size() == 1 || numbers.size() == 3, Exit::usage, "{} {}: give one number, or three", name, text);
  return numbers;
}

void set_mean(Options& o, const std::string& text) {
  using Statistics = PixelStatistics::Kind;
  PixelStatistics& pixels = o.data.input.pixels;
  if (text == "auto") return;
  if (text == "measured") {
    pixels.kind = Statistics::measured;
  } else if (text == "none") {
    pixels.kind = Statistics::none;
  } else if (text == "imagenet") {
    pixels.kind = Statistics::imagenet;
  } else if (text == "cifar10") {
    pixels.kind = Statistics::cifar10;
  } else {
    pixels.kind = Statistics::given;
    pixels.mean = numbers_in("--mean", text, 0);
  }
}

void set_std(Options& o, const std::string& text) { o.data.input.pixels.std = numbers_in("--std", text, 1e-6); }

bool has_numbers(const Options& o) { return !o.data.input.pixels.mean.empty(); }

std::string conflict_of_mean(const Options& o) {
  const PixelStatistics& pixels = o.data.input.pixels;
  return pixels.mean.empty() || !pixels.std.empty() ? "" : "with numbers needs --std with numbers";
}

// torchvision's operations on tensors have no bicubic.
std::string conflict_of_auto_augment(const Options& o) {
  const InputConfig& input = o.data.input;
  const bool fits =
      input.auto_augment == AutoAugmentConfig::Policy::none || input.interpolation != Interpolation::bicubic;
  return fits ? "" : "needs --interpolation bilinear or nearest";
}

bool is_rrc(const Options& o) { return o.data.input.transform.value_or(Kind::rrc) == Kind::rrc; }
bool is_resized(const Options& o) {
  const auto kind = o.data.input.transform;
  return kind != Kind::none && kind != Kind::stretch;
}
bool has_path(const Options& o) { return !o.data.path.empty(); }

std::string conflict_of_range(const std::vector<double>& range, const char* example) {
  const bool fits = range.size() == 2 && range[0] <= range[1];
  return fits ? "" : fmt::format("needs two numbers, the smaller one first, such as {}", example);
}

std::string conflict_of_sizes(const Options& o) {
  const InputConfig& input = o.data.input;
  const int64_t crop = input.val_crop > 0 ? input.val_crop : input.train_crop;
  if (input.val_resize == 0 || input.val_resize >= crop) return "";
  return fmt::format("must be at most --val-resize-size, which is {}", input.val_resize);
}

}  // namespace

OptionGroup data_options() {
  return {
      "Data",
      {{.name = "--dataset",
        .target = one_of<std::string>(
            {{"auto", "auto"},
             {"folder", "folder"},
             {"csv", "csv"},
             {"cifar10", "cifar10"},
             {"cifar100", "cifar100"},
             {"mnist", "mnist"},
             {"fashion-mnist", "fashion-mnist"},
             {"tokens", "tokens"}},
            [](Options & o) -> auto& { return o.data.name; }),
        .on_resume = OnResume::fixed(kOfData, "--dataset"),
        .help = "kind of the data; folder: pictures in train/CLASS and val/CLASS, or in CLASS; csv: pictures that "
                "--labels names; tokens: files *.bin of token numbers; auto: what --data-path holds, and fashion-mnist "
                "without it"},
       {.name = "--data-path",
        .target = to([](Options & o) -> auto& { return o.data.path; }),
        .on_resume = kSameData,
        .help = "folder of the data, or one file of tokens; default: the folder of Debian's package of Fashion-MNIST"},
       {.name = "--labels",
        .target = to([](Options & o) -> auto& { return o.data.labels; }),
        .on_resume = kSameData,
        .help = "CSV file with a header and the columns path, label and, if wanted, split (train or val)",
        .condition = {"needs --data-path, the folder of its paths", has_path}},
       {.name = "--val-split",
        .target = to([](Options & o) -> auto& { return o.data.val_split; }),
        .on_resume = kSameData,
        .help = "share of each class that is validation data, for pictures that have none of their own; chosen by "
                "--seed, class and path; of tokens the end",
        .check = number(0, 0.9)},
       {.name = "--coarse-labels",
        .target = to([](Options & o) -> auto& { return o.data.coarse_labels; }),
        .on_resume = kSameData,
        .help = "the 20 coarse classes of CIFAR-100"},
       {.name = "--train-samples",
        .target = to([](Options & o) -> auto& { return o.data.train_samples; }),
        .on_resume = OnResume::fixed(kOfData),
        .help = "train on N samples only: the first ones, or of pictures and tokens a fixed choice from all; 0: all",
        .check = CLI::NonNegativeNumber},
       {.name = "--sequence-length",
        .target = to([](Options & o) -> auto& { return o.data.sequence_length; }),
        .on_resume = kSameData,
        .help = "tokens of a sample; 0: 1024, or as many as the network has positions, if these are fewer",
        .check = CLI::Range(int64_t{0}, kLongestSequence)},
       {.name = "--vocab-size",
        .target = to([](Options & o) -> auto& { return o.data.vocabulary_size; }),
        .on_resume = kSameData,
        .help = "number of different tokens; 0: that of --vocabulary, else 50257, that of GPT-2",
        .check = CLI::Range(int64_t{0}, kMostVocabulary)},
       {.name = "--vocabulary",
        .target = to([](Options & o) -> auto& { return o.data.vocabulary; }),
        .on_resume = kSameData,
        .help =
            "text of the tokens: a file with GPT-2's merges (vocab.bpe, merges.txt), or bytes; default: vocabulary.txt "
            "in the folder of the data; the run keeps it as vocabulary.txt"},
       {.name = "--token-type",
        .target = one_of<std::optional<TokenType>>(
            {{"auto", std::nullopt}, {"uint16", TokenType::uint16}, {"uint32", TokenType::uint32}},
            [](Options & o) -> auto& { return o.data.token_type; }),
        .on_resume = kSameData,
        .help = "numbers in a file of tokens without a header; auto: those of the header of llm.c, else uint16"},
       {.name = "--train-transform",
        .target = one_of<std::optional<Kind>>(
            transforms_and_auto(), [](Options & o) -> auto& { return o.data.input.transform; }),
        .on_resume = kFixedInput,
        .help = "part of a picture that is trained on; rrc: RandomResizedCrop; resize-crop: Resize, then RandomCrop; "
                "center: Resize, then CenterCrop, as in validation; stretch: the whole picture, without its aspect "
                "ratio; none: pictures of one size as they are; auto: none for images of one size up to 224, else rrc"},
       {.name = "--train-crop-size",
        .target = to([](Options & o) -> auto& { return o.data.input.train_crop; }),
        .on_resume = kFixedInput,
        .help = "side, in pixels, of the images that the network reads; 0: 224, or the size of images of one size",
        .check = CLI::Range(int64_t{0}, kMostPixels)},
       {.name = "--val-resize-size",
        .target = to([](Options & o) -> auto& { return o.data.input.val_resize; }),
        .on_resume = kSameInput,
        .help = "shorter side after Resize; 0: 8/7 of the crop's side",
        .check = CLI::Range(int64_t{0}, kMostPixels),
        .condition = {"excludes --train-transform none and stretch", is_resized}},
       {.name = "--val-crop-size",
        .target = to([](Options & o) -> auto& { return o.data.input.val_crop; }),
        .on_resume = kSameInput,
        .help = "side of the CenterCrop of validation; 0: that of training; another one needs a network with global "
                "average pooling",
        .check = CLI::Range(int64_t{0}, kMostPixels),
        .conflict = conflict_of_sizes},
       {.name = "--rrc-scale",
        .target = to([](Options & o) -> auto& { return o.data.input.rrc_scale; }),
        .on_resume = kSameInput,
        .help = "range of the area of RandomResizedCrop, as a share of the picture; default: 0.08,1",
        .check = above_0(1),
        .condition = {"needs --train-transform rrc", is_rrc},
        .conflict = [](const Options& o) { return conflict_of_range(o.data.input.rrc_scale, "0.08,1"); }},
       {.name = "--rrc-ratio",
        .target = to([](Options & o) -> auto& { return o.data.input.rrc_ratio; }),
        .on_resume = kSameInput,
        .help = "range of the aspect ratio of RandomResizedCrop; default: 0.75,1.3333",
        .check = above_0(kMostRatio),
        .condition = {"needs --train-transform rrc", is_rrc},
        .conflict = [](const Options& o) { return conflict_of_range(o.data.input.rrc_ratio, "0.75,1.3333"); }},
       {.name = "--interpolation",
        .target = one_of<Interpolation>(
            kInterpolationNames, [](Options & o) -> auto& { return o.data.input.interpolation; }),
        .on_resume = kFixedInput,
        .help = "filter of a resize; bilinear and bicubic are antialiased, as Pillow's"},
       {.name = "--crop-padding",
        .target = to([](Options & o) -> auto& { return o.data.input.crop_padding; }),
        .on_resume = kSameInput,
        .help = "trains on a random crop of the image with a padding of N pixels on each side; 0: none",
        .check = CLI::Range(0, 4096)},
       {.name = "--padding-mode",
        .target = one_of<bool>(
            {{"constant", false}, {"reflect", true}}, [](Options & o) -> auto& { return o.data.input.reflect; }),
        .on_resume = kSameInput,
        .help = "pixels of the padding; constant: 0; reflect: the mirrored image",
        .condition = {"needs --crop-padding", [](const Options& o) { return o.data.input.crop_padding > 0; }}},
       {.name = "--hflip",
        .target = through<std::string>("auto", set_hflip),
        .on_resume = kSameInput,
        .help = "probability of a horizontal flip in training; alternate: each image flips every other epoch; auto: "
                "0.5 for pictures that are cropped, 0 for images of one size"},
       {.name = "--auto-augment",
        .target = one_of<AutoAugmentConfig::Policy>(
            kAutoAugmentNames, [](Options & o) -> auto& { return o.data.input.auto_augment; }),
        .on_resume = kSameInput,
        .help = "random operations on each training image, torchvision's on uint8; ta_wide: one of TrivialAugmentWide; "
                "ra: two of RandAugment; shears, translations and rotations use --interpolation",
        .conflict = conflict_of_auto_augment},
       {.name = "--ra-magnitude",
        .target = to([](Options & o) -> auto& { return o.data.input.ra_magnitude; }),
        .on_resume = kSameInput,
        .help = "magnitude of RandAugment's operations, in 31 steps from none to the strongest",
        .check = CLI::Range(0, kAugmentBins - 1),
        .condition = {"needs --auto-augment ra",
                      [](const Options& o) { return o.data.input.auto_augment == AutoAugmentConfig::Policy::ra; }}},
       {.name = "--random-erase",
        .target = to([](Options & o) -> auto& { return o.data.input.random_erase; }),
        .on_resume = kSameInput,
        .help = "probability that a random box of a training image is set to 0, after normalization",
        .check = number(0, 1)},
       {.name = "--mean",
        .target = through<std::string>("auto", set_mean),
        .on_resume = kFixedInput,
        .help = "mean of the pixels, which is subtracted: numbers from 0 to 1, of which three are averaged for grey "
                "images, or measured (with the standard deviation, from 10,000 training samples), imagenet, cifar10, "
                "or none; auto: that of the weights of --init-from, if their metadata have it, else measured for "
                "pictures, cifar10 for CIFAR, none for MNIST",
        .conflict = conflict_of_mean},
       {.name = "--std",
        .target = through<std::string>("", set_std),
        .on_resume = kFixedInput,
        .help = "standard deviation of the pixels, by which they are divided",
        .condition = {"needs --mean with numbers", has_numbers}},
       {.name = "--channels",
        .target = one_of<int>(
            {{"auto", 0}, {"1", 1}, {"3", 3}}, [](Options & o) -> auto& { return o.data.input.channels; }),
        .on_resume = kFixedInput,
        .help = "channels of pictures; auto: 1 if all are grey, else 3"},
       {.name = "--exif",
        .target = one_of<bool>(
            kExifNames, [](Options & o) -> auto& { return o.data.input.exif; }),
        .on_resume = kFixedInput,
        .help = "the orientation that a camera has stored"},
       {.name = "--alpha",
        .target = one_of<Alpha>(
            kAlphaNames, [](Options & o) -> auto& { return o.data.input.alpha; }),
        .on_resume = kFixedInput,
        .help = "transparent pixels; drop: their colour as stored; white, black: before this background"},
       {.name = "--workers",
        .target = to([](Options & o) -> auto& { return o.data.workers; }),
        .on_resume = Effect::nothing,
        .help = "threads of a rank that decode or augment pictures, or read tokens; 0: its share of the cores, for "
                "tokens one",
        .check = CLI::Range(0, 1024)},
       {.name = "--check-data",
        .target = one_of<CheckData>(
            {{"auto", CheckData::automatic},
             {"headers", CheckData::headers},
             {"full", CheckData::full},
             {"none", CheckData::none}},
            [](Options & o) -> auto& { return o.data.check; }),
        .on_resume = Effect::nothing,
        .help = "what to check of all pictures before the first step; full: decodes those that have changed since an "
                "earlier check; none: sizes are taken as different, and pictures as colour; auto: headers, with "
                "--on-error skip full"},
       {.name = "--on-error",
        .target = one_of<bool>(
            {{"stop", false}, {"skip", true}}, [](Options & o) -> auto& { return o.data.skip_broken; }),
        .on_resume = Effect::nothing,
        .help = "what to do about a picture that cannot be read; stop: save and end; skip: train without it",
        .conflict = [](const Options& o) {
          const bool whole = o.data.check == CheckData::automatic || o.data.check == CheckData::full;
          return o.data.skip_broken && !whole ? std::string("skip needs --check-data auto or full") : "";
        }}}};
}

}  // namespace ddp
