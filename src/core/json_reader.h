// Reads JSON that a stranger may have written.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace ddp {

struct JsonLimits {
  int64_t bytes = 1 << 16;
  int64_t values = 10'000;  // objects, lists, texts and numbers together: they bound the memory
  int depth = 8;            // of objects and lists
};

// The time is linear in the length of the text. Throws Error(Exit::data) where the text is not JSON, exceeds a limit,
// or has two equal names in an object; `subject` is the text's name in the message.
nlohmann::json read_json(std::string_view text, const std::string& subject, const JsonLimits& limits = {});

}  // namespace ddp
