// GPT-2's alphabet for bytes: in a file of merges, each byte is one printable character. Bytes that print in Latin-1
// stand for themselves, the others for U+0100, U+0101 ... in their order. The ids of the 256 bytes are in the order of
// these characters. (OpenAI's gpt-2, src/encoder.py, bytes_to_unicode.)
#pragma once

#include <array>
#include <cstdint>

namespace ddp {

class ByteAlphabet {
 public:
  static constexpr int kBytes = 256;

  constexpr ByteAlphabet() {
    int id = 0;
    for (const bool wanted : {true, false})
      for (int byte = 0; byte < kBytes; ++byte)
        if (prints(byte) == wanted) {
          characters_[byte] = static_cast<char32_t>(wanted ? byte : kBytes + id - kPrinting);
          byte_of_id_[id++] = static_cast<uint8_t>(byte);
        }
    for (int i = 0; i < kBytes; ++i) id_of_byte_[byte_of_id_[i]] = i;
  }

  constexpr uint8_t byte(int id) const { return byte_of_id_[id]; }  // 0 <= id < 256
  constexpr int32_t id(uint8_t byte) const { return id_of_byte_[byte]; }
  constexpr char32_t character(uint8_t byte) const { return characters_[byte]; }

 private:
  static constexpr int kPrinting = 94 + 12 + 82;
  static constexpr bool prints(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
  }

  std::array<char32_t, kBytes> characters_{};
  std::array<uint8_t, kBytes> byte_of_id_{};
  std::array<int32_t, kBytes> id_of_byte_{};
};

}  // namespace ddp
