// Lists of pictures in a CSV file (--labels). The first line names the columns: `path`, `label` and, if wanted, `split`
// (train or training, or val, validation, valid, test or testing, in any case), in any order; other columns are not
// read. The order of the rows is the order of the samples.
//
// A path is relative to the folder of the data and may not leave it; where there is no such file, its other Unicode
// normal forms are tried. Labels are names, also where they look like numbers, and become Unicode normal form C. The
// classes are the labels of the training rows: sorted by value if all are whole decimal numbers (so "10" follows "9"),
// otherwise byte by byte (by code point).
//
// Throws Error(Exit::data) with file and line for a file that is broken (see core/csv_rows.h), missing columns, an
// empty path or label, an unknown split, a path that leaves the folder, a file that is named twice with two labels or
// twice in one split, a label of validation rows that no training row has, and files that are missing or not regular:
// all missing files are counted, the first 20 are named, and the folder that has them, if one below `root` has. A FIFO
// or device is not opened. So are fewer than `least_classes` classes, labels that all have names of splits, and a label
// that a split has in two normal forms.
#pragma once

#include "data/picture_lists.h"

#include <filesystem>
#include <functional>

namespace ddp {

// `root`: the folder of the data.
// Calls `progress` from time to time.
PictureLists list_csv(
    const std::filesystem::path& file, const std::filesystem::path& root, const std::function<void()>& progress = [] {},
    int least_classes = 1);

}  // namespace ddp
