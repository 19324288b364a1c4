// A folder of pictures as a data set, as torchvision's ImageFolder: each folder of `train` is a class, classes are
// sorted by their names byte by byte (by code point), the pictures of a class as FolderScan lists them. The name of a
// class is that of its folder in Unicode normal form C.
//
//   root/train/cat/a.jpg  and  root/val/cat/b.jpg         training and validation data. `train` may be `training`, and
//                                                         `val` may be `validation`, `valid`, `test` or `testing`, in
//                                                         this order and in any case
//   root/cat/a.jpg                                        training data only
//
// Paths are relative to the root. `val` is matched by name: a class that `train` lacks is an error. A class of `train`
// without pictures keeps its label, with a warning. Throws Error(Exit::data) for a path that is no folder, for no
// classes, no pictures, and for what FolderScan refuses.
//
// The wrong folder is Error(Exit::data) too, with the folder that was probably meant. It has fewer than `least_classes`
// classes with pictures, all its classes have names of splits, or a class folder holds a data set.
#pragma once

#include "data/picture_lists.h"

#include <filesystem>
#include <functional>

namespace ddp {

// Calls `progress` from time to time.
PictureLists list_folder(
    const std::filesystem::path& root, const std::function<void()>& progress = [] {}, int least_classes = 1);

}  // namespace ddp
