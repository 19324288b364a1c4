// An input is a file of tokens, whose windows of three tokens are read.
#include "data/token_dataset.h"
#include "tests/fuzz/memory_file.h"

#include <algorithm>
#include <array>
#include <memory>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ddp::MemoryFile file;
  constexpr int32_t kVocabulary = 100'000;
  file.assign({reinterpret_cast<const char*>(data), size});
  ddp::read_or_refuse(ddp::Exit::data, [&] {
    const auto tokens = std::make_shared<const ddp::TokenFile>(file.path());
    const ddp::TokenDataset windows({{tokens, 0, tokens->tokens()}}, 2, kVocabulary);
    ddp::check(windows.tokens() * 2 <= static_cast<int64_t>(size), "each token is in the file");
    for (int64_t i = 0; i < windows.size(); ++i) {
      std::array<int32_t, 3> window{};
      windows.read({i}, {reinterpret_cast<uint8_t*>(window.data()), sizeof window});
      ddp::check(std::ranges::all_of(window, [](int32_t token) { return token >= 0 && token < kVocabulary; }),
                 "each token is in the vocabulary");
    }
  });
  return 0;
}
