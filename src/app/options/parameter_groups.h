// The groups of parameters in the options of a run. --group has them as one text, such as
// "fc.*:lr=0.1:weight-decay=0/conv1.*:lr=0.001"; a configuration file may have a table [[group]] for each.
#pragma once

#include "nn/parameter_groups.h"

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddp {

using GroupValues = std::vector<std::pair<std::string, std::string>>;  // such as {"weight-decay", "0"}

// Group `number`, from 1. Throws Error(Exit::usage) that names it.
ParameterGroup group_of(size_t number, const std::string& match, const GroupValues& values);

// Throws Error(Exit::usage) also where there are too many.
std::vector<ParameterGroup> parse_groups(const std::string& text);

std::string text_of_groups(std::span<const ParameterGroup> groups);  // equal groups have equal texts

}  // namespace ddp
