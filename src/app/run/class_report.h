// The figures of the classes of an evaluation as files and text. Classes have their names, or else their numbers.
#pragma once

#include "app/inputs/model_info.h"
#include "train/evaluation/class_counts.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace ddp {

// Adds to `report`:
//   "top5_accuracy"   left out where there are five classes or fewer
//   "macro_f1"
//   "per_class"       [{"class", "count", "precision", "recall", "f1"}, ...] in the order of the classes; null where
//                     there is nothing to divide by (ClassFigures)
void add_class_figures(nlohmann::ordered_json& report, const ClassCounts& counts, const ModelInfo& model);

// The matrix as CSV: a row for each class, a column for each prediction; row and column 1 have the names. Needs a
// matrix.
std::string confusion_csv(const ClassCounts& counts, const ModelInfo& model);

// A line for each class with samples or predictions; of more than 20 such classes, for the 10 with the lowest F1.
std::string class_table(const ClassCounts& counts, const ModelInfo& model);

}  // namespace ddp
