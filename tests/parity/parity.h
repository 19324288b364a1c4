// Shared by the comparisons with PyTorch: hashed numbers, weights and samples made from them, and distances between
// tensors by random projections. networks.py and figures.py define them.
#pragma once

#include "checkpoint/state_dict.h"
#include "data/dataset.h"
#include "device/cpu/device.h"
#include "nn/network.h"
#include "nn/parameters.h"
#include "ops/cpu/ops.h"
#include "train/step/replica.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddp::testing {

inline nlohmann::json expected_figures(const std::string& file) {
  return nlohmann::json::parse(std::ifstream(std::string(DDP_EXPECTED) + "/" + file));
}

// `network` with all dropout rates 0.
inline Network without_dropout(const Network& network) {
  std::vector<LayerSpec> layers = network.layers();
  for (LayerSpec& layer : layers) layer.rate = 0;
  return {network, std::move(layers)};
}

inline uint64_t hash(uint64_t x) {
  uint64_t z = x + 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

inline double unit(uint64_t tensor, uint64_t element) {  // in [-1, 1)
  return 2 * (static_cast<double>(hash(tensor << 32 | element) >> 11) * 0x1p-53) - 1;
}

// `places` maps a name to the tensor's index among the float tensors of PyTorch's state_dict.
inline std::vector<float> parity_weights(std::span<const Parameter> parameters,
                                         const std::map<std::string, uint64_t>& places, double shift, double gain = 1) {
  using Role = Parameter::Role;
  std::vector<float> flat(flat_count(parameters));
  for (const Parameter& p : parameters) {
    const uint64_t place = places.at(p.name);
    const bool of_norm = p.role == Role::norm_scale || p.role == Role::norm_shift || p.role == Role::layer_scale;
    const bool has_fan = p.role == Role::weight || p.role == Role::bias;
    const double centre = p.role == Role::norm_shift ? shift : of_norm ? 1 : 0, fan_in = static_cast<double>(p.fan_in);
    for (int64_t i = 0; i < p.count; ++i) {
      const double u = unit(place, static_cast<uint64_t>(p.pytorch_index(i)));
      flat[p.offset + i] = static_cast<float>(of_norm ? centre + 0.25 * u : has_fan ? gain * u / std::sqrt(fan_in) : u);
    }
  }
  return flat;
}

// `count` samples of the parity order, from sample `first`.
class ParityOrder final : public Dataset {
 public:
  ParityOrder(const Dataset& whole, int64_t first, int64_t count) : whole_(whole), first_(first), count_(count) {}
  int64_t size() const override { return count_; }
  ImageShape image_shape() const override { return whole_.image_shape(); }
  int classes() const override { return whole_.classes(); }
  int64_t sequence_length() const override { return whole_.sequence_length(); }
  void read(const SampleKey& key, std::span<uint8_t> pixels) const override {
    whole_.read({at(key.index), key.epoch}, pixels);
  }
  int32_t label(int64_t i) const override { return whole_.label(at(i)); }

 private:
  int64_t at(int64_t i) const { return (first_ + i) * 7919 % 60000; }
  const Dataset& whole_;
  int64_t first_, count_;
};

class Noise final : public Dataset {
 public:
  explicit Noise(ImageShape shape) : shape_(shape) {}
  int64_t size() const override { return 60000; }
  ImageShape image_shape() const override { return shape_; }
  int classes() const override { return 10; }
  void read(const SampleKey& key, std::span<uint8_t> pixels) const override {
    const int64_t i = key.index;
    for (size_t e = 0; e < pixels.size(); ++e)
      pixels[e] = static_cast<uint8_t>(hash(((uint64_t{1} << 20) + static_cast<uint64_t>(i)) << 32 | e) >> 56);
  }
  int32_t label(int64_t i) const override { return static_cast<int32_t>(i % 10); }

 private:
  ImageShape shape_;
};

// Windows of tokens.
class NoiseTokens final : public Dataset {
 public:
  NoiseTokens(int64_t length, int vocabulary) : length_(length), vocabulary_(vocabulary) {}
  int64_t size() const override { return 60000; }
  ImageShape image_shape() const override { return {length_, 1, 1}; }
  int classes() const override { return vocabulary_; }
  int64_t sequence_length() const override { return length_; }
  void read(const SampleKey& key, std::span<uint8_t> bytes) const override {
    std::vector<int32_t> tokens;
    for (uint64_t e = 0; std::cmp_less_equal(e, length_); ++e) {
      const uint64_t number = hash(((uint64_t{1} << 20) + static_cast<uint64_t>(key.index)) << 32 | e);
      tokens.push_back(static_cast<int32_t>(number % static_cast<uint64_t>(vocabulary_)));
    }
    std::memcpy(bytes.data(), tokens.data(), bytes.size());
  }
  int32_t label(int64_t) const override { return 0; }

 private:
  int64_t length_;
  int vocabulary_;
};

// The estimated L2 distance between a tensor in PyTorch's layout and the tensor of the fingerprint.
inline double projected_distance(std::span<const float> tensor, uint64_t place, const nlohmann::json& projections,
                                 size_t stride = 1) {
  std::vector<double> sums(projections.size());
  for (size_t e = 0; e < tensor.size(); e += stride) {
    const uint64_t signs = hash((256 + place) << 32 | e);
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += (signs >> k & 1 ? 1.0 : -1.0) * tensor[e];
  }
  double squares = 0;
  for (size_t k = 0; k < sums.size(); ++k) {
    const double difference = sums[k] - projections[k].get<double>();
    squares += difference * difference;
  }
  return std::sqrt(squares * static_cast<double>(stride) / static_cast<double>(sums.size()));
}

inline double norm_of(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  return std::sqrt(squares);
}

// The index of each tensor in a state of expected/networks.
inline std::map<std::string, uint64_t> places_of(const nlohmann::json& state) {
  if (state.contains("tensors")) return state.at("tensors");
  std::map<std::string, uint64_t> places;
  for (const char* kind : {"gradients", "buffers"})
    for (const auto& [name, figures] : state.at(kind).items()) places[name] = figures.at("tensor");
  return places;
}

// The running statistics of a network with frozen parts.
inline std::vector<float> parity_statistics(std::span<const BatchNormState> batch_norms,
                                            const std::map<std::string, uint64_t>& places) {
  std::vector<float> statistics(state_count(batch_norms));
  for (const BatchNormState& norm : batch_norms)
    for (int64_t c = 0; c < norm.span.channels; ++c) {
      const auto u = [&](const char* name) {
        return unit(places.at(norm.layer_name + name), static_cast<uint64_t>(c));
      };
      statistics[norm.span.offset + c] = static_cast<float>(0.1 * u(".running_mean"));
      statistics[norm.span.offset + norm.span.channels + c] = static_cast<float>(1 + 0.25 * u(".running_var"));
    }
  return statistics;
}

inline void start_from(const nlohmann::json& state, Replica& replica) {
  const std::string start = state.at("start");
  if (start == "frozen") replica.load_running_stats(parity_statistics(replica.batch_norms, places_of(state)));
  if (start != "trained")
    return replica.load(
        parity_weights(replica.parameters, places_of(state), start == "open" ? 8 : 0, state.value("gain", 1.0)));
  const std::string weights = std::string(DDP_EXPECTED) + "/networks/" + state.at("weights").get<std::string>();
  const ModelState trained = load_state_dict(weights, replica.parameters, replica.batch_norms);
  replica.load(trained.weights);
  replica.load_running_stats(trained.statistics);
}

// The largest distance between PyTorch's own ways of rounding.
inline double largest_spread(const nlohmann::json& state, const char* what) {
  double largest = 0;
  for (const auto& [variant, spread] : state.at("spread").items())
    largest = std::max(largest, spread.at(what).get<double>());
  return largest;
}

// The same without channels_last, which sums in another order.
inline double plain_spread(const nlohmann::json& state, const char* what) {
  const nlohmann::json& spread = state.at("spread");
  const auto of = [&](const char* variant) { return spread.at(variant).at(what).get<double>(); };
  return std::max(of("float32"), of("without_onednn"));
}
inline double gradient_spread(const nlohmann::json& state) { return plain_spread(state, "gradients"); }

// The bound for losses. In the states where channels_last flips a ReLU, so that its later losses are far off, another
// order of sums may do so too.
inline double loss_bound(const nlohmann::json& state, const char* what) {
  const bool flips = state.at("spread").at("channels_last").at("losses").get<double>() > 1e-4;
  return std::max(1e-5, 2 * (flips ? largest_spread(state, what) : plain_spread(state, what)));
}

// False if rounding flips ReLUs in PyTorch's own runs. Then the gradients have no reference.
inline bool comparable(const nlohmann::json& state) { return gradient_spread(state) <= 1e-4; }

}  // namespace ddp::testing
