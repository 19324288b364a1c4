#include "app/inputs/load_tokens.h"

#include "app/inputs/vocabulary_of_run.h"
#include "core/error.h"
#include "core/printable.h"
#include "data/text/vocabulary.h"
#include "data/token_dataset.h"
#include "data/token_files.h"
#include "ddp/hash.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
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

// That of --vocabulary, else the file in the folder of the data; empty: there is none.
std::string vocabulary_of(const DataConfig& config) {
  if (!config.vocabulary.empty()) return config.vocabulary;
  std::error_code error;
  const std::filesystem::path path = config.path;
  const auto file = (std::filesystem::is_directory(path, error) ? path : path.parent_path()) / kVocabularyFile;
  return std::filesystem::exists(file, error) ? file.native() : "";
}

// Keeps the vocabulary for the output folder. Returns its size.
int64_t load_vocabulary(const DataConfig& config, const std::string& resumed_vocabulary, LoadedData& loaded) {
  const int64_t given = config.vocabulary_size;
  const std::string name = vocabulary_of(config);
  if (name.empty()) return given > 0 ? given : kGpt2Vocabulary;
  std::error_code error;
  const bool moved = name != "bytes" && !resumed_vocabulary.empty() && !std::filesystem::exists(name, error) && !error;
  const Vocabulary vocabulary =
      moved ? Vocabulary::parse(kVocabularyFile, resumed_vocabulary) : Vocabulary::named(name);
  if (config.evaluated)
    require(given == vocabulary.size(), Exit::data,
            "the network has {} tokens, and the vocabulary {} has {}; evaluate on data of the vocabulary of the "
            "training",
            given, printable(name), vocabulary.size());
  require(given == 0 || given == vocabulary.size(), Exit::usage,
          "--vocab-size {}: {} {} has {} tokens; leave out --vocab-size", given,
          config.vocabulary.empty() ? "the vocabulary" : "--vocabulary", printable(name), vocabulary.size());
  loaded.fingerprint = hash_of(vocabulary.text());
  loaded.listings[kVocabularyFile] = vocabulary.text();
  return vocabulary.size();
}

}  // namespace

LoadedData load_tokens(const DataConfig& config, const std::string& resumed_vocabulary) {
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
  const int64_t length = config.sequence_length > 0 ? config.sequence_length : config.default_sequence_length,
                vocabulary = load_vocabulary(config, resumed_vocabulary, loaded);
  loaded.data.train = std::make_unique<TokenDataset>(std::move(train), length, vocabulary);
  if (!val.empty()) loaded.data.test = std::make_unique<TokenDataset>(std::move(val), length, vocabulary);

  // A window that cannot be read ends the run on all ranks.
  loaded.train_exclusions = std::make_unique<Exclusions>(loaded.data.train->size());
  if (loaded.data.test) loaded.test_exclusions = std::make_unique<Exclusions>(loaded.data.test->size());
  return loaded;
}

}  // namespace ddp
