// Weights of the classes in the loss of the training (--label-weights), by number of the class.
#pragma once

#include "data/dataset.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

inline constexpr const char* kBalancedLabels = "balanced";
inline constexpr int64_t kMostWeightBytes = 16 << 20;  // of a file of weights

// n / (classes * n_c) for n samples, n_c of class c: each class has the same sum of weights, and the mean weight of a
// sample is 1. Throws Error(Exit::data) if a class has no sample. `names` may be empty.
std::vector<float> balanced_weights(const Dataset& train, std::span<const std::string> names);

// From CSV text (core/csv_rows.h) with the columns class and weight, and a row for each class: its name, or its number
// from 0. Weights are from 1e-6 to 1e6. Throws Error(Exit::data) with the line.
std::vector<float> parse_label_weights(const std::string& file, std::string_view text,
                                       std::span<const std::string> names, int classes);

// For messages and the run state, such as "0.5 to 3 (balanced, 00f3...)".
std::string describe_weights(const std::string& option, std::span<const float> weights);

}  // namespace ddp
