// The text of a CSV list, before anything is known of the files. csv.h says what such a list is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

struct LabelRow {
  std::string path;   // relative, without components `.` and `..`; these are resolved in the text
  std::string label;  // in Unicode normal form C
  bool val = false;
  int64_t line = 0;  // where the row begins, from 1
};

struct LabelTable {
  std::vector<LabelRow> rows;        // in the order of the file
  std::vector<std::string> classes;  // labels of the training rows, sorted
  std::vector<std::string> notes;
};

// `file`: its path, for messages. Throws Error(Exit::data) with the line, as csv.h says.
LabelTable parse_labels(const std::string& file, std::string_view text, int least_classes = 1);

// Sorts unique names: by value if all are whole decimal numbers, otherwise byte by byte.
void sort_classes(std::vector<std::string>& names);

}  // namespace ddp
