#include "app/commands/tokenize/write_tokens.h"

#include "app/commands/tokenize/new_token_file.h"
#include "app/commands/tokenize/text_files.h"
#include "app/inputs/vocabulary_of_run.h"
#include "core/durable_file.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "data/text/pre_tokens.h"
#include "data/text/vocabulary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

// Where a character begins, at most three bytes before the end, so that no character is cut.
size_t last_character(std::string_view text) {
  size_t at = text.size();
  while (at > 1 && text.size() - at < 3 && (text[at - 1] & 0xC0) == 0x80) --at;
  return at > 1 && (text[at - 1] & 0xC0) == 0xC0 ? at - 1 : text.size();
}

// One output with what has gone into it.
struct Part {
  Part(const fs::path& path, int64_t vocabulary_size) : name(printable(path.native())), file(path, vocabulary_size) {}
  std::string line() const {
    return fmt::format("{}: {} tokens of {} bytes, {:.2f} bytes per token\n", name, file.tokens(), bytes,
                       static_cast<double>(bytes) / static_cast<double>(file.tokens()));
  }

  const std::string name;
  NewTokenFile file;
  int64_t bytes = 0;
};

void encode_to(Part& part, const Vocabulary& vocabulary, std::string& text, size_t bytes) {
  part.file.write(vocabulary.encode(std::string_view(text).substr(0, bytes)));
  part.bytes += static_cast<int64_t>(bytes);
  text.erase(0, bytes);
}

// Encodes a document to `part`, and from the byte `split` on to `next`.
void encode_document(const TextFile& document, const Vocabulary& vocabulary, size_t most, Part& part, int64_t split,
                     Part* next) {
  const OpenFile file = open_for_reading(document.path);
  std::string text;
  Part* to = &part;
  for (int64_t offset = 0;;) {
    const int64_t wanted = std::min(static_cast<int64_t>(most), to == &part ? split - offset : kNowhere);
    const size_t before = text.size();
    text.resize(before + static_cast<size_t>(wanted));
    const ReadResult result = read_at(file.get(), static_cast<size_t>(offset),
                                      {reinterpret_cast<uint8_t*>(text.data()) + before, static_cast<size_t>(wanted)});
    require(result.error == 0, Exit::data, "{}: cannot read it: {}", printable(document.path.native()),
            errno_text(result.error));
    text.resize(before + result.bytes);
    offset += static_cast<int64_t>(result.bytes);
    if (static_cast<int64_t>(result.bytes) < wanted) return encode_to(*to, vocabulary, text, text.size());
    const bool splits = to == &part && offset == split;
    size_t cut = last_cut(text);
    const bool whole = offset == std::ssize(text);  // no cut before
    if (cut == 0 && (splits ? whole : text.size() >= Vocabulary::kLongestPreToken)) cut = last_character(text);
    encode_to(*to, vocabulary, text, cut);
    if (splits) to = next;
  }
}

}  // namespace

std::string write_tokens(const TokenizeOptions& options, size_t most) {
  const Vocabulary vocabulary = Vocabulary::named(options.vocabulary);
  const std::vector<TextFile> documents = find_texts(options.texts);
  int64_t total = 0;
  for (const TextFile& document : documents) total += document.bytes;
  require(total > 0, Exit::data, "the texts are empty; give other files");
  const fs::path folder = options.output_folder;
  create_durable_folders(folder);
  NewFile words(folder / kVocabularyFile);
  Part train(folder / "train.bin", vocabulary.size());
  std::optional<Part> val;
  if (options.val_split > 0) val.emplace(folder / "val.bin", vocabulary.size());
  // Of the bytes before those of val.bin, the ones that are still to come.
  int64_t left = val ? total - std::llround(static_cast<double>(total) * options.val_split) : kNowhere;
  for (const TextFile& document : documents) {
    Part& part = left > 0 ? train : *val;
    part.file.write(std::array{vocabulary.end_of_text()});
    const bool splits = left > 0 && left < document.bytes;
    encode_document(document, vocabulary, most, part, splits ? left : kNowhere, splits ? &*val : nullptr);
    if (val) left -= document.bytes;
  }
  require(!val || (train.file.tokens() > 0 && val->file.tokens() > 0), Exit::data,
          "--val-split {} of {} bytes leaves one of the files without tokens; give another share, or more text",
          options.val_split, total);
  words.write(vocabulary.text());
  std::vector<NewFile*> files = {&train.file.finish(), &words};
  if (val) files.push_back(&val->file.finish());
  NewFile::keep(files);
  return train.line() + (val ? val->line() : "") +
         fmt::format("{}: {} tokens\n", printable((folder / kVocabularyFile).native()), vocabulary.size());
}

}  // namespace ddp
