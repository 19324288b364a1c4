// Spans as bytes, for the way from a rank to rank 0. Both run the same program on the same kind of machine.
#pragma once

#include "core/span_recorder.h"

#include <set>
#include <span>
#include <string>
#include <vector>

namespace ddp {

std::string pack(std::span<const Span> spans);

// The names of the result lie in `names`.
std::vector<Span> unpack(const std::string& packed, std::set<std::string>& names);

}  // namespace ddp
