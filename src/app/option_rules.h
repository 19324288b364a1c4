// Which options go together: an option is honoured or refused, never ignored. What depends on the device or the network
// is refused where those are made.
#pragma once

#include "app/options.h"

#include <functional>
#include <string>

namespace ddp {

// Whether the others leave this option, such as "--momentum", anything to say.
bool option_applies(const Options& options, const std::string& name);

// Throws Error(Exit::usage) that names both sides of what does not fit. `given`: whether the user gave this option.
void require_options_fit(const Options& options, const std::function<bool(const std::string& name)>& given);

}  // namespace ddp
