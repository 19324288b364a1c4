#include "app/inputs/load_pictures.h"

#include "app/inputs/check_all_pictures.h"
#include "app/inputs/choose_transforms.h"
#include "app/inputs/excluded_pictures.h"
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

constexpr size_t kShown = 20;             // broken pictures in a message
constexpr size_t kMostLeftOut = 500'000;  // pictures, so that the state in a checkpoint stays small

// With --on-error stop, broken pictures end the run.
void judge(const PartFacts& part, const PartState& state, const DataConfig& config, const char* name,
           LoadedData& loaded) {
  const PictureFacts& facts = part.facts;
  const PartState broken = excluded_pictures(part, nullptr, 0);
  const auto cannot_be_read = [&](const PartState& which) {
    return fmt::format("{} of {} {} pictures cannot be read", which.left_out.size(), part.list.size(), name);
  };
  require(config.skip_broken || facts.broken.empty(), Exit::data,
          "{}: {}:{}\nmend or remove them, or give --on-error skip", printable(config.path), cannot_be_read(broken),
          left_out_lines(part, broken, kShown));
  require(facts.pictures > 0 || facts.broken.empty(), Exit::data, "{}: no {} picture can be read:{}",
          printable(config.path), name, left_out_lines(part, broken, kShown));
  require(state.left_out.size() <= kMostLeftOut, Exit::data, "{}: {}; a run leaves out at most {}",
          printable(config.path), cannot_be_read(broken), kMostLeftOut);
  require(state.left_out.empty() || std::ssize(state.left_out) < part.list.size(), Exit::data,
          "{}: the run leaves out all {} {} pictures", printable(config.path), part.list.size(), name);
  if (!state.left_out.empty())
    loaded.notes.push_back(
        fmt::format("{}; they are left out:{}", cannot_be_read(state), left_out_lines(part, state, kShown)));
  const std::vector<BrokenPicture> excluded = config.skip_broken ? state.broken : std::vector<BrokenPicture>();
  require(std::ssize(excluded) <= kMostExcluded, Exit::data,
          "{}: {} of {} {} pictures have broken since the run began; a run excludes at most {}", printable(config.path),
          excluded.size(), part.list.size(), name, kMostExcluded);
  if (!excluded.empty())
    loaded.notes.push_back(fmt::format("{} of {} {} pictures have broken since the run began; they stay excluded:{}",
                                       excluded.size(), part.list.size(), name, broken_lines(excluded, kShown)));
  if (const std::string lines = left_out_lines(part, state, SIZE_MAX) + broken_lines(excluded, SIZE_MAX);
      !lines.empty())
    loaded.listings[skipped_file(name)] = lines.substr(1) + "\n";
}

void note_kept(const PictureLists& lists, const CheckedPictures& checked, const DataConfig& config,
               LoadedData& loaded) {
  if (config.check != CheckData::full) return;
  const int64_t pictures = lists.train.size() + lists.val.size();
  if (checked.decoded < pictures)
    loaded.notes.push_back(
        fmt::format("the check decoded {} of {} pictures; the others have not changed since an earlier check",
                    checked.decoded, pictures));
  if (!checked.kept.empty()) loaded.listings[kKeptCheck] = checked.kept;
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

uint64_t fingerprint_of(const PartFacts& part, const PartState& state) {
  Hash hash;
  hash.add(hash_at_start(part, state));
  for (const int64_t picture : state.left_out) hash.add(static_cast<uint64_t>(picture));
  return hash.value();
}

}  // namespace

LoadedData load_pictures(const DataConfig& given, const std::string& kind, uint64_t seed, MpiSession& session,
                         Communicator& world, const Log& log, const Reading& reading, const ResumedPictures& resumed) {
  DataConfig config = given;
  if (config.check == CheckData::automatic) config.check = given.skip_broken ? CheckData::full : CheckData::headers;
  LoadedData loaded;
  loaded.excludes = config.skip_broken;
  loaded.kind = kind;
  PictureLists lists = share_lists(config, kind, seed, session, reading);
  loaded.notes = lists.notes;
  loaded.meant = lists.meant;
  if (config.evaluated) run_on_all_ranks(session, [&] { keep_evaluated(lists, config, loaded); });
  loaded.workers = choose_workers(config.workers, world, session.host());

  const bool is_checked = config.check != CheckData::none;
  const CheckedPictures checked =
      is_checked ? check_all_pictures(lists, config, resumed.run_folder, loaded.workers, kShown, session, log, reading)
                 : CheckedPictures{};
  const PictureFacts &train = checked.train, &val = checked.val;
  run_on_all_ranks(session, [&] {
    const PartFacts train_part{lists.train, train, checked.train_sizes}, val_part{lists.val, val, checked.val_sizes};
    const PicturesState& state = loaded.pictures.emplace(PicturesState{
        excluded_pictures(train_part, resumed.pictures ? &resumed.pictures->training : nullptr, resumed.next_step),
        excluded_pictures(val_part, resumed.pictures ? &resumed.pictures->validation : nullptr, resumed.next_step),
        resumed.pictures ? resumed.pictures->excluded_in_epoch : 0});
    judge(train_part, state.training, config, "training", loaded);
    judge(val_part, state.validation, config, "validation", loaded);
    note_kept(lists, checked, config, loaded);
    note_leaks(lists, checked, loaded);

    PictureFacts both = train;
    both.merge(val);
    if (is_checked && both.grey > 0 && both.grey < both.pictures)
      loaded.notes.push_back(
          fmt::format("{} of {} pictures are grey: they get three equal channels", both.grey, both.pictures));
    if (both.animated > 0)
      loaded.notes.push_back(
          fmt::format("{} of {} pictures are animated: the first frame is read", both.animated, both.pictures));
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
    const auto open = [&](const PictureList& list, const TransformConfig& transform,
                          const std::vector<int64_t>& without) {
      return std::make_unique<PictureDataset>(list, config.path, transform, decode, without);
    };
    loaded.data.train = open(lists.train, transforms.train, state.training.left_out);
    if (lists.val.size() > 0) loaded.data.test = open(lists.val, transforms.validation, state.validation.left_out);
    loaded.measured = open(lists.train, transforms.validation, state.training.left_out);
    const auto names = loaded.data.train->class_names();
    loaded.class_names.assign(names.begin(), names.end());
    loaded.validation = transforms.validation;
    loaded.decode = decode;
    loaded.transforms = describe(transforms, decode);
    loaded.fingerprint = fingerprint_of(train_part, state.training) ^ fingerprint_of(val_part, state.validation) << 1;
    const auto exclusions = [&](const PictureList& list, const PartState& part) {
      return std::make_unique<Exclusions>(list, config.skip_broken ? part.broken : std::vector<BrokenPicture>());
    };
    loaded.train_exclusions = exclusions(lists.train, state.training);
    loaded.test_exclusions = exclusions(lists.val, state.validation);
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
