#include "app/inputs/vocabulary_of_run.h"

#include "checkpoint/folder.h"
#include "core/error.h"
#include "core/printable.h"
#include "ddp/hash.h"

#include <system_error>

namespace ddp {
namespace {

namespace fs = std::filesystem;

// Empty: there is none.
fs::path file_of_run(const fs::path& weights) {
  std::error_code error;
  const fs::path folder = fs::absolute(weights, error).parent_path(), above = folder.parent_path();
  if (fs::exists(folder / kVocabularyFile, error)) return folder / kVocabularyFile;
  const fs::path run = above.parent_path();
  const bool is_checkpoint = above == checkpoints_of(run);
  return is_checkpoint && fs::exists(run / kVocabularyFile, error) ? run / kVocabularyFile : fs::path();
}

}  // namespace

std::optional<uint64_t> vocabulary_hash(const LoadedData& data) {
  const auto found = data.listings.find(kVocabularyFile);
  return found == data.listings.end() ? std::nullopt : std::optional(hash_of(found->second));
}

Vocabulary vocabulary_of_run(const ModelInfo& info, const fs::path& weights, const std::string& given) {
  const fs::path file = given.empty() ? file_of_run(weights) : fs::path(given);
  require(!file.empty(), Exit::usage, "{}: its run has no {}; give --vocabulary FILE, or bytes",
          printable(weights.native()), kVocabularyFile);
  Vocabulary vocabulary = Vocabulary::named(file.native());
  const std::string name = printable(file.native());
  require(vocabulary.size() == info.classes, Exit::data,
          "the vocabulary {} has {} tokens, and the network {} has {}; give the vocabulary of its training", name,
          vocabulary.size(), info.model, info.classes);
  const uint64_t hash = hash_of(vocabulary.text());
  require(!info.vocabulary_hash || hash == *info.vocabulary_hash, Exit::data,
          "the vocabulary {} has the hash {:016x}, and that of the training of {} had {:016x}; give the vocabulary of "
          "its training",
          name, hash, info.model, info.vocabulary_hash.value_or(0));
  return vocabulary;
}

}  // namespace ddp
