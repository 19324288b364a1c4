// A trained network that reads tokens, on the CPU: a text in, the logits of the token that follows out.
//
// The network is planned for a few lengths, when one is needed: the positions behind the last token do not change its
// logits, so the shortest length that holds the text gives them.
#pragma once

#include "app/commands/predict/trained_network.h"
#include "device/buffer.h"
#include "device/device.h"
#include "nn/model.h"
#include "ops/ops.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// Powers of two from 16 on that are below `longest`, then `longest`.
std::vector<int64_t> planned_lengths(int64_t longest);

class NextToken {
 public:
  // `threads` threads compute; `weights` is the name of the file. Throws Error: Exit::model for a network in which a
  // position depends on later ones, Exit::data for one that needs too much memory.
  NextToken(const ModelInfo& info, TrainedNetwork trained, int threads, const std::string& weights);
  NextToken(const NextToken&) = delete;
  NextToken& operator=(const NextToken&) = delete;

  int64_t longest() const { return longest_; }  // tokens that the network reads

  // One for each token of the vocabulary; valid until the next call. Of `text`, which has at least one token, the last
  // longest() tokens are read.
  std::span<const float> logits(std::span<const int32_t> text);

 private:
  Model& model_for(int64_t length);

  const ModelInfo info_;
  TrainedNetwork trained_;  // its state is in `weights_`
  const int64_t longest_, vocabulary_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Ops> ops_;
  const Buffer weights_;
  std::vector<int64_t> lengths_;
  std::map<int64_t, Model> models_;  // by length
  std::vector<int32_t> tokens_;
};

}  // namespace ddp
