// Mutations for texts: some repeat a part of the input until it is large. Each copy has its number after the first
// quotation mark, so that names differ.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  if (size == 0 || random() % 64 != 0) return LLVMFuzzerMutate(data, size, most);
  const size_t begin = random() % size, length = 1 + random() % std::min<size_t>(size - begin, 100);
  const std::string text(reinterpret_cast<const char*>(data), size), part = text.substr(begin, length);
  const size_t quote = std::min(part.find('"') + 1, length), large = std::min(most, size_t{64} << random() % 15);
  std::string result = text.substr(0, begin);
  for (int i = 0; result.size() < large; ++i) result += part.substr(0, quote) + std::to_string(i) + part.substr(quote);
  result += text.substr(begin + length);
  if (result.size() > most) return size;
  std::copy(result.begin(), result.end(), data);
  return result.size();
}
