#include "app/load_pictures.h"

#include "app/check_all_pictures.h"
#include "app/input_names.h"
#include "app/threads.h"
#include "comm/shared_block.h"
#include "core/error.h"
#include "core/printable.h"
#include "data/csv.h"
#include "data/folder.h"
#include "data/picture_dataset.h"
#include "data/picture_lists.h"
#include "data/val_split.h"
#include "ddp/hash.h"
#include "health/run_on_all_ranks.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

namespace ddp {
namespace {

using Kind = TransformConfig::Kind;
using nlohmann::json;

constexpr int64_t kCrop = 224, kLargestAsIs = 224;
constexpr int kMostWorkers = 16;
constexpr size_t kShown = 20;  // broken pictures in a message

PictureLists list_pictures(const DataConfig& config, const std::string& kind, uint64_t seed, const Reading& reading) {
  reading.progress();
  PictureLists lists = kind == "csv" ? list_csv(config.labels, config.path, reading.progress)
                                     : list_folder(config.path, reading.progress);
  if (config.val_split > 0) {
    require(lists.val.size() == 0, Exit::usage, "--val-split {}: the data have {} validation pictures of their own",
            config.val_split, lists.val.size());
    split_validation(lists, config.val_split, seed);
  }
  reading.done();
  return lists;
}

// The rank of this host that lists the data: its first.
int leader_of(const MpiSession& session, const HeartbeatTable& heartbeats) {
  const std::string& host = heartbeats.host_of(session.rank());
  int leader = 0;
  while (heartbeats.host_of(leader) != host) ++leader;
  return leader;
}

// What a leader tells the ranks of its host.
std::string told_by(const SharedBlock& block, const std::vector<std::string>& notes) {
  return json{{"block", block.key()}, {"notes", notes}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Returns nothing if this process cannot map the leader's memory.
std::optional<PictureLists> map_lists(const std::string& text) {
  const json told = json::parse(text);
  const SharedBlock::Mapped mapped = SharedBlock::map(told.at("block"));
  if (!mapped.bytes) return std::nullopt;
  PictureLists lists = PictureLists::from_block(mapped.bytes, mapped.size);
  lists.notes = told.at("notes").get<std::vector<std::string>>();
  return lists;
}

// The lists of this host's leader. A rank that cannot map its memory lists the data itself.
PictureLists share_lists(const DataConfig& config, const std::string& kind, uint64_t seed, MpiSession& session,
                         const Reading& reading) {
  const int leader = leader_of(session, session.heartbeats());
  const bool leads = session.rank() == leader;
  PictureLists lists;
  std::optional<SharedBlock> shared;
  run_on_all_ranks(session, [&] {
    if (!leads) return;
    lists = list_pictures(config, kind, seed, reading);
    shared.emplace(lists.block());
  });
  const auto told = session.gather(shared ? told_by(*shared, lists.notes) : "");
  run_on_all_ranks(session, [&] {
    if (leads) return;
    const auto mapped = map_lists(told[leader]);
    lists = mapped ? *mapped : list_pictures(config, kind, seed, reading);
  });
  return lists;
}

void require_same_on_all_hosts(const PictureLists& lists, const std::string& path, MpiSession& session) {
  std::vector<ListedHost> hosts;
  const auto texts = session.gather(
      fmt::format("{} {} {}", lists.train.size(), lists.val.size(), lists.train.hash() ^ lists.val.hash() << 1));
  for (int rank = 0; rank < session.size(); ++rank) {
    std::istringstream text(texts[rank]);
    ListedHost& host = hosts.emplace_back(ListedHost{.host = session.heartbeats().host_of(rank)});
    text >> host.train >> host.val >> host.hash;
  }
  const std::string different = difference_of_hosts(hosts);
  if (!different.empty())
    throw CollectiveError(Exit::data, fmt::format("{}: not all hosts see the same files:{}\ncopy the data again, or "
                                                  "give all hosts one folder",
                                                  printable(path), different));
}

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

struct Transforms {
  TransformConfig train, validation;
};

// Refuses options that have no effect on pictures of one size.
void require_used_as_they_are(const InputConfig& input) {
  const InputConfig defaults;
  const auto refuse = [](bool given, const char* name) {
    require(
        !given, Exit::usage,
        "{} has no effect: the pictures have one size and are used as they are; give another --train-transform, such "
        "as rrc, or leave the option out",
        name);
  };
  refuse(input.train_crop > 0, "--train-crop-size");
  refuse(input.val_crop > 0, "--val-crop-size");
  refuse(input.val_resize > 0, "--val-resize-size");
  refuse(input.rrc_scale != defaults.rrc_scale, "--rrc-scale");
  refuse(input.rrc_ratio != defaults.rrc_ratio, "--rrc-ratio");
  refuse(input.interpolation != defaults.interpolation, "--interpolation");
}

// Throws Error: Exit::usage for options that do not fit the pictures, Exit::data for pictures of several sizes.
Transforms transforms_of(const InputConfig& input, const PictureFacts& facts, uint64_t seed) {
  const PictureSize size = facts.largest;
  const bool sized = input.train_crop > 0 || input.val_crop > 0;
  const bool small = facts.one_size() && size.w <= kLargestAsIs && size.h <= kLargestAsIs;
  const bool as_is = input.transform ? *input.transform == Kind::none : small && !sized;
  Transforms t;
  t.train.seed = seed;
  if (as_is) {
    require(facts.pictures > 0, Exit::usage, "--train-transform none needs --check-data headers or full");
    require(facts.one_size(), Exit::data,
            "--train-transform none needs pictures of one size; they have {} to {} x {} to {} pixels", facts.smallest.w,
            size.w, facts.smallest.h, size.h);
    require_used_as_they_are(input);
    t.train.kind = Kind::none;
    t.train.crop = size;
    t.validation = t.train;
    return t;
  }
  const int64_t crop = input.train_crop > 0 ? input.train_crop : input.val_crop > 0 ? input.val_crop : kCrop;
  const int64_t val_crop = input.val_crop > 0 ? input.val_crop : crop;
  const auto resize_for = [&](int64_t side) { return input.val_resize > 0 ? input.val_resize : (side * 8 + 6) / 7; };
  t.train.kind = input.transform.value_or(Kind::rrc);
  t.train.crop = {crop, crop};
  t.train.resize = resize_for(crop);
  const int64_t most = t.train.kind == Kind::rrc ? val_crop : std::max(crop, val_crop);
  require(resize_for(most) >= most, Exit::usage, "--val-resize-size {} is less than the crop's {}", resize_for(most),
          most);
  std::copy_n(input.rrc_scale.begin(), 2, t.train.scale.begin());
  std::copy_n(input.rrc_ratio.begin(), 2, t.train.ratio.begin());
  t.validation = t.train;
  t.validation.crop = {val_crop, val_crop};
  t.validation.resize = resize_for(val_crop);
  t.validation.kind = t.train.kind == Kind::stretch ? Kind::stretch : Kind::center;
  return t;
}

// The network's own. Pictures that it does not resize must have its size.
Transforms transforms_of(const EvaluatedInput& input, const PictureFacts& facts) {
  const TransformConfig& given = input.transform;
  if (given.kind == Kind::none) {
    require(facts.pictures > 0, Exit::usage,
            "this network does not resize pictures: give --check-data headers or full");
    require(facts.one_size() && facts.largest == given.crop, Exit::model,
            "the network was trained on images of {} x {} pixels, which are not resized; these have {} to {} x {} to "
            "{} pixels",
            given.crop.w, given.crop.h, facts.smallest.w, facts.largest.w, facts.smallest.h, facts.largest.h);
  }
  return {given, given};
}

std::string describe(const Transforms& t, const DecodeConfig& decode) {
  const TransformConfig& c = t.train;
  std::string text = fmt::format("{} {} x {}", name_in(kTransformNames, c.kind), c.crop.w, c.crop.h);
  if (c.kind == Kind::rrc)
    text += fmt::format(" scale {:g},{:g} ratio {:g},{:g}", c.scale[0], c.scale[1], c.ratio[0], c.ratio[1]);
  if (c.kind != Kind::none && c.kind != Kind::stretch)
    text += fmt::format(", validation resized to {}", t.validation.resize);
  if (!(t.validation.crop == c.crop))
    text += fmt::format(", validation cropped to {} x {}", t.validation.crop.w, t.validation.crop.h);
  if (decode.interpolation != Interpolation::bilinear)
    text += ", " + name_in(kInterpolationNames, decode.interpolation);
  if (!decode.exif) text += ", EXIF ignored";
  if (decode.alpha != Alpha::drop) text += ", on " + name_in(kAlphaNames, decode.alpha);
  return text;
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
  require_same_on_all_hosts(lists, config.path, session);
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
    const bool cropped = transforms.train.kind != Kind::none;
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
