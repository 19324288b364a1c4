// The choice of the token that continues a text.
#pragma once

#include <cstdint>
#include <span>

namespace ddp {

struct DrawConfig {
  double temperature = 1;  // divides the logits; 0: the most probable token
  int64_t top_k = 0;       // draws from the K most probable tokens; 0: from all
  uint64_t seed = 0;
};

// Uniform in [0, 1): a pure function of the seed, the number of the text, and that of the token in its continuation,
// both from 0.
double number_of_draw(uint64_t seed, int64_t text, int64_t token);

// Each token has its share of softmax(logits / temperature). `logits` are finite, one for each token of the vocabulary;
// `number` is in [0, 1). Of equal logits that of the lower token counts as the larger one.
int32_t draw_token(std::span<const float> logits, const DrawConfig& config, double number);

}  // namespace ddp
