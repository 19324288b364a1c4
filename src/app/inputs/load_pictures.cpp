#include "app/inputs/load_pictures.h"

#include "app/inputs/check_all_pictures.h"
#include "app/inputs/choose_transforms.h"
#include "app/inputs/share_lists.h"
#include "app/machine/threads.h"
#include "core/error.h"
#include "core/printable.h"
#include "data/picture_dataset.h"
#include "ddp/hash.h"
#include "health/run_on_all_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddp {
namespace {

constexpr int kMostWorkers = 16;
constexpr size_t kShown = 20;  // broken pictures in a message

std::string lines_of(const PictureList& list, const PictureFacts& facts, size_t most) {
  std::string lines;
  for (size_t i = 0; i < std::min(facts.broken.size(), most); ++i) {
    const auto& [picture, reason] = facts.broken[i];
    lines += fmt::format("\n  {}{}{}", printable(list.path(picture)), reason.empty() ? "" : ": ", reason);
  }
  if (facts.broken.size() > most) lines += fmt::format("\n  and {} more", facts.broken.size() - most);
  return lines;
}

// With --on-error stop, broken pictures end the run.
void judge(const PictureList& list, const PictureFacts& facts, const DataConfig& config, const char* part,
           LoadedData& loaded) {
  if (facts.broken.empty()) return;
  const std::string count = fmt::format("{} of {} {} pictures cannot be read", facts.broken.size(), list.size(), part);
  require(config.skip_broken, Exit::data, "{}: {}:{}\nmend or remove them, or give --on-error skip",
          printable(config.path), count, lines_of(list, facts, kShown));
  require(facts.pictures > 0, Exit::data, "{}: no {} picture can be read:{}", printable(config.path), part,
          lines_of(list, facts, kShown));
  loaded.notes.push_back(fmt::format("{}; they are left out:{}", count, lines_of(list, facts, kShown)));
  loaded.listings[fmt::format("skipped-{}.txt", part)] = lines_of(list, facts, facts.broken.size()).substr(1) + "\n";
}

void note_leaks(const PictureLists& lists, const CheckedPictures& checked, LoadedData& loaded) {
  if (checked.leaks == 0) return;
  std::string text = fmt::format("warning: {} training pictures are validation pictures too:", checked.leaks);
  for (const auto& [train, val] : checked.leaking)
    text += fmt::format("\n  {} and {}", printable(lists.train.path(static_cast<int64_t>(train))),
                        printable(lists.val.path(val)));
  loaded.notes.push_back(text);
}

// Leaves only the pictures to evaluate, as validation data.
void keep_evaluated(PictureLists& lists, const DataConfig& config, LoadedData& loaded) {
  require(config.val_split == 0 || lists.val.size() > 0, Exit::usage, "--val-split {} chooses none of the {} pictures",
          config.val_split, lists.train.size());
  if (lists.val.size() == 0) {
    loaded.notes.emplace_back("the data have no validation part, so all pictures are evaluated");
    lists.val = lists.train;
  }
  std::vector<std::string> names;
  for (int k = 0; k < lists.train.classes(); ++k) names.emplace_back(lists.train.class_name(k));
  lists.train = PictureListBuilder(std::move(names)).finish();
}

std::vector<int64_t> positions(const PictureFacts& facts) {
  std::vector<int64_t> found;
  for (const auto& [picture, reason] : facts.broken) found.push_back(picture);
  return found;
}

uint64_t fingerprint_of(const PictureList& list, const std::vector<int64_t>& left_out) {
  Hash hash;
  hash.add(list.hash());
  for (const int64_t picture : left_out) hash.add(static_cast<uint64_t>(picture));
  return hash.value();
}

}  // namespace

LoadedData load_pictures(const DataConfig& config, const std::string& kind, uint64_t seed, MpiSession& session,
                         Communicator& world, const Log& log, const Reading& reading) {
  LoadedData loaded;
  loaded.kind = kind;
  PictureLists lists = share_lists(config, kind, seed, session, reading);
  loaded.notes = lists.notes;
  if (config.evaluated) run_on_all_ranks(session, [&] { keep_evaluated(lists, config, loaded); });
  loaded.workers =
      std::min(choose_threads(config.workers, world, session.host()), config.workers > 0 ? 1024 : kMostWorkers);

  const bool is_checked = config.check != CheckData::none;
  const CheckedPictures checked =
      is_checked ? check_all_pictures(lists, config, loaded.workers, kShown, session, log, reading) : CheckedPictures{};
  const PictureFacts &train = checked.train, &val = checked.val;
  run_on_all_ranks(session, [&] {
    judge(lists.train, train, config, "training", loaded);
    if (!val.broken.empty()) judge(lists.val, val, config, "validation", loaded);
    note_leaks(lists, checked, loaded);

    PictureFacts both = train;
    both.merge(val);
    if (is_checked && both.grey > 0 && both.grey < both.pictures)
      loaded.notes.push_back(
          fmt::format("{} of {} pictures are grey: they get three equal channels", both.grey, both.pictures));
    const InputConfig& input = config.input;
    const Transforms transforms =
        config.evaluated ? transforms_of(*config.evaluated, both) : transforms_of(input, both, seed);
    const bool all_grey = both.pictures > 0 && both.grey == both.pictures;
    DecodeConfig decode{.channels = input.channels > 0 ? input.channels
                                    : all_grey         ? 1
                                                       : 3,
                        .exif = input.exif,
                        .alpha = input.alpha,
                        .interpolation = input.interpolation};
    if (config.evaluated) decode = config.evaluated->decode;
    const std::vector<int64_t> no_train = positions(train), no_val = positions(val);
    const auto open = [&](const PictureList& list, const TransformConfig& transform,
                          const std::vector<int64_t>& without) {
      return std::make_unique<PictureDataset>(list, config.path, transform, decode, without);
    };
    loaded.data.train = open(lists.train, transforms.train, no_train);
    if (lists.val.size() > 0) loaded.data.test = open(lists.val, transforms.validation, no_val);
    loaded.measured = open(lists.train, transforms.validation, no_train);
    const auto names = loaded.data.train->class_names();
    loaded.class_names.assign(names.begin(), names.end());
    loaded.validation = transforms.validation;
    loaded.decode = decode;
    loaded.transforms = describe(transforms, decode);
    loaded.fingerprint = fingerprint_of(lists.train, no_train) ^ fingerprint_of(lists.val, no_val) << 1;
    loaded.pixels = input.pixels;
    const bool cropped = transforms.train.kind != TransformConfig::Kind::none;
    loaded.augmentation.hflip = static_cast<float>(input.hflip.value_or(cropped && !input.alternate_flip ? 0.5 : 0));
    if (config.val_split > 0) {
      std::string listing;
      for (int64_t i = 0; i < lists.val.size(); ++i) listing += printable(lists.val.path(i)) + "\n";
      loaded.listings["validation.txt"] = std::move(listing);
    }
  });
  return loaded;
}

}  // namespace ddp
