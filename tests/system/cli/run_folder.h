// What a run leaves in its folder: the events of metrics.jsonl, and the tensors of model.safetensors.
#pragma once

#include "tests/system/cli/program.h"
#include "tests/values.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <valarray>
#include <vector>

namespace ddp::testing {

inline std::vector<nlohmann::json> events(const std::filesystem::path& run, const std::string& kind) {
  std::vector<nlohmann::json> found;
  std::istringstream lines(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("event") == kind) found.push_back(event);
  }
  return found;
}

// What a checkpoint keeps under this name of what the run has measured; empty: nothing.
inline std::string kept_in(const std::filesystem::path& run, int step, const std::string& name) {
  const auto folder = run / "checkpoints" / fmt::format("step-{:08}", step);
  return nlohmann::json::parse(read_file(folder / "state.json")).at("autotune").value(name, "");
}

// The values of this key in all events of a kind.
template <class T>
std::vector<T> values_of(const std::filesystem::path& run, const std::string& kind, const std::string& key) {
  std::vector<T> values;
  for (const auto& event : events(run, kind)) values.push_back(event.at(key).get<T>());
  return values;
}

using Doubles = std::valarray<double>;
using Weights = std::map<std::string, Doubles>;

// The tensors of type F32 by name.
inline Weights read_weights(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const auto header = nlohmann::json::parse(file.substr(8, length));
  Weights tensors;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__" || tensor.at("dtype") != "F32") continue;
    const auto begin = tensor.at("data_offsets")[0].get<size_t>(), end = tensor.at("data_offsets")[1].get<size_t>();
    std::vector<float> values((end - begin) / sizeof(float));
    std::memcpy(values.data(), file.data() + 8 + length + begin, end - begin);
    Doubles& all = tensors[name];
    all.resize(values.size());
    std::copy(values.begin(), values.end(), std::begin(all));
  }
  return tensors;
}

inline double norm(const Doubles& values) { return std::sqrt((values * values).sum()); }

inline double norm(const Weights& tensors) {
  double squares = 0;
  for (const auto& [name, values] : tensors) squares += (values * values).sum();
  return std::sqrt(squares);
}

// A tensor for each of a's: combine(a's values, b's values). Both have the same names and sizes, or the test fails.
template <class Combine>
Weights combined(const Weights& a, const Weights& b, Combine combine) {
  Weights result;
  EXPECT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) {
    const bool fits = b.contains(name) && b.at(name).size() == values.size();
    EXPECT_TRUE(fits) << name;
    if (fits) result[name] = combine(values, b.at(name));
  }
  return result;
}

inline Weights operator-(const Weights& a, const Weights& b) {
  return combined(a, b, [](const Doubles& x, const Doubles& y) { return Doubles(x - y); });
}

// Both files have the same tensors, which differ by rounding.
inline void expect_close_tensors(const std::filesystem::path& actual, const std::filesystem::path& expected) {
  const Weights tensors = read_weights(actual), others = read_weights(expected);
  ASSERT_FALSE(others.empty());
  ASSERT_EQ(tensors.size(), others.size());
  for (const auto& [name, values] : tensors) {
    ASSERT_TRUE(others.contains(name)) << name;
    const Doubles& other = others.at(name);
    expect_close({std::begin(values), std::end(values)}, {std::begin(other), std::end(other)}, name.c_str());
  }
}

}  // namespace ddp::testing
