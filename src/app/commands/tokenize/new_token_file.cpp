#include "app/commands/tokenize/new_token_file.h"

#include "core/error.h"
#include "core/printable.h"
#include "data/token_file.h"

#include <array>
#include <limits>
#include <string_view>
#include <vector>

namespace ddp {
namespace {

template <class T>
std::string_view raw_bytes(const T& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]};
}

}  // namespace

NewTokenFile::NewTokenFile(const std::filesystem::path& path, int64_t vocabulary_size)
    : name_(printable(path.native())), wide_(vocabulary_size > std::numeric_limits<uint16_t>::max() + 1), file_(path) {
  std::array<int32_t, kTokenHeaderBytes / sizeof(int32_t)> header{};
  header[0] = wide_ ? kMagicOf32 : kMagicOf16;
  header[1] = wide_ ? kVersionOf32 : kVersionOf16;
  file_.write(raw_bytes(header));
}

void NewTokenFile::write(std::span<const int32_t> tokens) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  tokens_ += std::ssize(tokens);
  require(tokens_ <= kMost, Exit::data, "{}: such a file holds {} tokens; give a part of the texts", name_, kMost);
  if (wide_) return file_.write(raw_bytes(tokens));
  const std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
  file_.write(raw_bytes(narrow));
}

NewFile& NewTokenFile::finish() {
  const std::array count = {static_cast<int32_t>(tokens_)};
  file_.write_at(kPlaceOfTokens * sizeof(int32_t), raw_bytes(count));
  return file_;
}

}  // namespace ddp
