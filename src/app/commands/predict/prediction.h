// What a network says about one picture, as a line of text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddp {

enum class PredictionFormat : uint8_t { text, csv, jsonl };

struct Prediction {
  std::string path;                                         // any bytes
  std::string error;                                        // why there is no prediction; empty: there is one
  std::vector<std::pair<std::string, float>> classes = {};  // names and probabilities, the most probable first
};

// The numbers of the `count` most probable classes, or of all if there are fewer. Of equal probabilities the class with
// the lower number comes first.
std::vector<int64_t> most_probable(std::span<const float> probabilities, int count);

// The first line of a table of predictions of `count` classes each; empty for formats without one.
std::string prediction_header(PredictionFormat format, int count);

// One line, with its end.
//   text    path, then name and probability of each class, two spaces apart. Control characters are escaped.
//   csv     path, error, then name and probability of `count` classes; quoted as RFC 4180 says, so that names with
//           newlines are whole. The path has its own bytes.
//   jsonl   {"path": ..., "predictions": [{"class": ..., "probability": ...}, ...]}, or "error" instead of predictions.
//           Bytes that are not UTF-8 are escaped.
std::string prediction_line(PredictionFormat format, int count, const Prediction& prediction);

}  // namespace ddp
