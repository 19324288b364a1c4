// A network that reads tokens and a data set of windows, small enough for the reference ops.
#pragma once

#include "core/error.h"
#include "data/dataset.h"
#include "nn/network.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace ddp::testing {

constexpr int64_t kTokenVocabulary = 11, kWindow = 6;  // tokens that the network reads

// Each token follows from the one before it, in most places.
class TokenWindows final : public Dataset {
 public:
  explicit TokenWindows(int64_t samples) : samples_(samples) {}

  int64_t size() const override { return samples_; }
  ImageShape image_shape() const override { return {kWindow, 1, 1}; }
  int classes() const override { return static_cast<int>(kTokenVocabulary); }
  int64_t sequence_length() const override { return kWindow; }
  int32_t token(int64_t sample, int64_t t) const {
    int64_t value = sample % kTokenVocabulary;
    for (int64_t i = 0; i < t; ++i) value = (3 * value + 1 + (i * sample % 5 == 4 ? 1 : 0)) % kTokenVocabulary;
    return static_cast<int32_t>(value);
  }
  void read(const SampleKey& key, std::span<uint8_t> bytes) const override {
    DDP_EXPECT(key.index >= 0 && key.index < samples_ && std::ssize(bytes) == sample_bytes());
    std::vector<int32_t> tokens;
    for (int64_t t = 0; t <= kWindow; ++t) tokens.push_back(token(key.index, t));
    std::memcpy(bytes.data(), tokens.data(), bytes.size());
  }
  int32_t label(int64_t) const override { return 0; }

 private:
  const int64_t samples_;
};

// A transformer of one block with a tied head and more positions than tokens. `drops`: with dropout and stochastic
// depth.
inline Network token_network(bool drops = true) {
  const auto rate = [&](float value) { return drops ? value : 0; };
  Network net("tokens", {kWindow, 1, 1});
  const int table = net.named("wte").embedding(8, kTokenVocabulary).here();
  const int x = net.named("wpe").position_embedding(kWindow + 3).dropout(rate(0.2f)).here();
  net.layer_norm().linear(24).transposed().scaled_dot_product_attention(2, true).linear(8).transposed();
  const int attended = net.dropout(rate(0.1f)).add(x).here();
  net.layer_norm()
      .linear(16)
      .activation({Activation::Kind::gelu_tanh})
      .linear(8)
      .stochastic_depth(rate(0.3f))
      .add(attended);
  return net.layer_norm().tied_linear(table);
}

}  // namespace ddp::testing
