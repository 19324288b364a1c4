// A small GPT and windows of tokens for it.
#pragma once

#include "core/error.h"
#include "data/dataset.h"
#include "nn/network.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace ddp::testing {

constexpr int64_t kGptWindow = 6, kGptVocabulary = 11;

// One transformer block with a tied head, and dropout unless `dropout` is 0.
inline Network small_gpt(float dropout = 0.2f, int64_t length = kGptWindow) {
  Network net = Network("gpt", {length, 1, 1}).embedding(8, kGptVocabulary);
  const int table = net.here();
  net.position_embedding(kGptWindow).dropout(dropout);
  const int tokens = net.here();
  net.layer_norm().linear(24).scaled_dot_product_attention(2, true).linear(8).add(tokens);
  const int attended = net.here();
  net.layer_norm().linear(16).activation({Activation::Kind::gelu_tanh}).linear(8).add(attended);
  return net.layer_norm().tied_linear(table);
}

// Each token follows from the one before it, in most places.
class TokenData final : public Dataset {
 public:
  explicit TokenData(int64_t samples, int64_t length = kGptWindow) : samples_(samples), length_(length) {}

  int64_t size() const override { return samples_; }
  ImageShape image_shape() const override { return {length_, 1, 1}; }
  int classes() const override { return kGptVocabulary; }
  int64_t sequence_length() const override { return length_; }
  int32_t token(int64_t sample, int64_t t) const {
    int64_t value = sample % kGptVocabulary;
    for (int64_t i = 0; i < t; ++i) value = (3 * value + 1 + (i * sample % 5 == 4 ? 1 : 0)) % kGptVocabulary;
    return static_cast<int32_t>(value);
  }
  void read(const SampleKey& key, std::span<uint8_t> bytes) const override {
    DDP_EXPECT(std::ssize(bytes) == sample_bytes());
    std::vector<int32_t> tokens;
    for (int64_t t = 0; t <= length_; ++t) tokens.push_back(token(key.index, t));
    std::memcpy(bytes.data(), tokens.data(), bytes.size());
  }
  int32_t label(int64_t) const override { return 0; }

 private:
  const int64_t samples_, length_;
};

}  // namespace ddp::testing
