// The folder that was probably meant, where the given one does not fit.
#pragma once

#include "data/folder_scan.h"

#include <string>
#include <vector>

namespace ddp {

// Data sets below the root of `scan`, at most four levels down: folders with a training part; where there are none,
// folders with two class folders of pictures, or with the files of CIFAR or MNIST. At most three, sorted by depth.
// Calls the scan's `progress`. Looks at a thousand folders at most.
std::vector<std::string> find_data_sets(const FolderScan& scan);

// A line for each folder that can be pasted: "; probably meant:\n  --data-path 'data/cifar'". Empty for no folders.
std::string probably_meant(const FolderScan& scan, const std::vector<std::string>& folders);

}  // namespace ddp
