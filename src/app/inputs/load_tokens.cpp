#include "app/inputs/load_tokens.h"

#include "core/error.h"
#include "core/printable.h"
#include "data/token_dataset.h"
#include "data/token_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace ddp {
namespace {

using Paths = std::vector<std::filesystem::path>;

// Each token file stays open.
void allow_open_files(size_t files) {
  constexpr rlim_t kOthers = 512;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= files + kOthers) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, files + kOthers);
  setrlimit(RLIMIT_NOFILE, &limit);  // a file that cannot be opened is an error that names the limit
}

std::vector<TokenPart> open_files(const Paths& paths, const DataConfig& config) {
  std::vector<TokenPart> parts;
  for (const std::filesystem::path& path : paths) {
    auto file = std::make_shared<const TokenFile>(path, config.token_type);
    const int64_t tokens = file->tokens();
    parts.push_back({std::move(file), 0, tokens});
  }
  return parts;
}

std::unique_ptr<TokenDataset> windows_of(std::vector<TokenPart> parts, const DataConfig& config) {
  return std::make_unique<TokenDataset>(std::move(parts),
                                        config.sequence_length > 0 ? config.sequence_length : kSequenceLength,
                                        config.vocabulary_size > 0 ? config.vocabulary_size : kGpt2Vocabulary);
}

}  // namespace

LoadedData load_tokens(const DataConfig& config) {
  TokenFiles files = find_token_files(config.path);
  allow_open_files(files.train.size() + files.val.size());
  std::vector<TokenPart> train = open_files(files.train, config), val = open_files(files.val, config);
  if (config.val_split > 0) {
    require(val.empty(), Exit::usage, "--val-split: {} is validation data already; leave the option out",
            val.empty() ? "" : val.front().file->name());
    val = split_off(train, config.val_split);
    require(!val.empty(), Exit::usage, "--val-split {} is less than one token", config.val_split);
  }
  LoadedData loaded;
  loaded.kind = "tokens";
  loaded.notes = std::move(files.notes);
  loaded.pixels.kind = PixelStatistics::Kind::none;
  loaded.workers = std::max(1, config.workers);
  loaded.data.train = windows_of(std::move(train), config);
  if (!val.empty()) loaded.data.test = windows_of(std::move(val), config);

  // A window that cannot be read ends the run on all ranks.
  loaded.train_exclusions = std::make_unique<Exclusions>(loaded.data.train->size());
  if (loaded.data.test) loaded.test_exclusions = std::make_unique<Exclusions>(loaded.data.test->size());
  return loaded;
}

}  // namespace ddp
