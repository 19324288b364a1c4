// An input is a file of merges, a zero byte, and a text.
#include "data/text/vocabulary.h"

#include "tests/fuzz/check.h"

#include <algorithm>
#include <string_view>

namespace ddp {
namespace {

void encode(const Vocabulary& vocabulary, std::string_view text) {
  const auto tokens = vocabulary.encode(text);
  check(vocabulary.decode(tokens) == text, "the tokens of a text give the text");
  const size_t cut = last_cut(text);
  auto parts = vocabulary.encode(text.substr(0, cut));
  const auto rest = vocabulary.encode(text.substr(cut));
  parts.insert(parts.end(), rest.begin(), rest.end());
  check(parts == tokens, "a cut changes no token");
}

}  // namespace
}  // namespace ddp

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ddp::LinearTime limit(size);
  const std::string_view input(reinterpret_cast<const char*>(data), size), file = input.substr(0, input.find('\0'));
  const std::string_view text = input.substr(std::min(size, file.size() + 1));
  ddp::encode(ddp::Vocabulary::bytes(), text);
  ddp::read_or_refuse(ddp::Exit::data, [&] {
    const ddp::Vocabulary vocabulary = ddp::Vocabulary::parse("file", file);
    ddp::check(ddp::Vocabulary::parse("text", vocabulary.text()).text() == vocabulary.text(), "it can be read again");
    ddp::encode(vocabulary, text);
  });
  return 0;
}
