#include "app/commands/predict/draw_token.h"

#include "app/commands/predict/prediction.h"
#include "core/philox.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace ddp {

double number_of_draw(uint64_t seed, int64_t text, int64_t token) {
  const RandomStream stream(seed, Operation::draw_token, static_cast<uint32_t>(text));
  const Bits128 random = stream.bits(static_cast<uint64_t>(token));
  const uint64_t bits = (uint64_t{random.word[0]} << 32 | random.word[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

int32_t draw_token(std::span<const float> logits, const DrawConfig& config, double number) {
  const auto largest = std::ranges::max_element(logits);
  if (config.temperature == 0) return static_cast<int32_t>(largest - logits.begin());
  std::vector<int64_t> tokens;
  if (config.top_k > 0) {
    tokens = most_probable(logits, static_cast<int>(config.top_k));
    std::ranges::sort(tokens);
  } else {
    tokens.resize(logits.size());
    std::iota(tokens.begin(), tokens.end(), 0);
  }
  std::vector<double> sums;  // of the shares up to each token, without their divisor
  double sum = 0;
  for (const int64_t token : tokens)
    sums.push_back(sum += std::exp((double{logits[static_cast<size_t>(token)]} - *largest) / config.temperature));
  const auto drawn = std::ranges::upper_bound(sums, number * sum);
  return static_cast<int32_t>(tokens[static_cast<size_t>(std::min(drawn - sums.begin(), std::ssize(sums) - 1))]);
}

}  // namespace ddp
