// The kinds of layers of a network file (nn/model_file.h), without blocks and groups.
#pragma once

#include "nn/model_file/entry.h"
#include "nn/network.h"

#include <span>
#include <string_view>
#include <vector>

namespace ddp {

struct ModelKind {
  std::string_view key;                   // says the kind
  std::vector<std::string_view> options;  // other keys
  void (*add)(Network& network, const ModelEntry& entry);
};

std::span<const ModelKind> model_kinds();

}  // namespace ddp
