// The confusion matrix of a run, from its confusion.csv.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::report {

struct Confusion {
  std::vector<std::string> classes;
  std::vector<int64_t> counts;  // a row for each class, a column for each prediction

  int64_t count(size_t label, size_t prediction) const { return counts[label * classes.size() + prediction]; }
  int64_t samples(size_t label) const;  // of a class
};

// `file`: its name for messages. Throws Error(Exit::data) with the line where the text is not such a matrix.
Confusion parse_confusion(std::string_view text, const std::string& file);

struct ConfusedPair {
  size_t label = 0, prediction = 0;
  int64_t count = 0;
};
// The most frequent errors, at most `most`.
std::vector<ConfusedPair> worst_pairs(const Confusion& confusion, size_t most);

}  // namespace ddp::report
