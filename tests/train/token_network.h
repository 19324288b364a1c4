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

// Windows without a pattern.
class TokenWindows final : public Dataset {
 public:
  explicit TokenWindows(int64_t count) : count_(count) {
    for (int64_t i = 0; i < count * (kWindow + 1); ++i)
      tokens_.push_back(static_cast<int32_t>(static_cast<uint32_t>(i) * 2654435761u >> 13) % kTokenVocabulary);
  }

  int64_t size() const override { return count_; }
  ImageShape image_shape() const override { return {kWindow, 1, 1}; }
  int classes() const override { return static_cast<int>(kTokenVocabulary); }
  int64_t sequence_length() const override { return kWindow; }
  void read(const SampleKey& key, std::span<uint8_t> bytes) const override {
    DDP_EXPECT(key.index >= 0 && key.index < count_ && std::ssize(bytes) == sample_bytes());
    std::memcpy(bytes.data(), tokens_.data() + key.index * (kWindow + 1), bytes.size());
  }
  int32_t label(int64_t) const override { return 0; }

 private:
  int64_t count_;
  std::vector<int32_t> tokens_;
};

// A transformer of one block with a tied head and more positions than tokens.
inline Network token_network() {
  Network net("tokens", {kWindow, 1, 1});
  const int table = net.named("wte").embedding(8, kTokenVocabulary).here();
  const int x = net.named("wpe").position_embedding(kWindow + 3).dropout(0.2f).here();
  net.layer_norm().linear(24).transposed().scaled_dot_product_attention(2, true).linear(8).transposed();
  const int attended = net.dropout(0.1f).add(x).here();
  net.layer_norm().linear(16).activation({Activation::Kind::gelu_tanh}).linear(8).stochastic_depth(0.3f).add(attended);
  return net.layer_norm().tied_linear(table);
}

}  // namespace ddp::testing
