#include "telemetry/packed_spans.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <sstream>
#include <type_traits>

namespace ddp {
namespace {

struct Packed {
  int64_t begin_ns, end_ns, number;
  int32_t lane;
  uint16_t name;  // its place in the list of names
  Track track;
};
static_assert(std::is_trivially_copyable_v<Packed>);

}  // namespace

// The names, each with a zero at its end; an empty name; the spans.
std::string pack(std::span<const Span> spans) {
  std::string names, bytes(spans.size() * sizeof(Packed), '\0');
  std::map<const char*, uint16_t> places;
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    const auto [place, added] = places.try_emplace(span.name, static_cast<uint16_t>(places.size()));
    if (added) names += span.name + std::string(1, '\0');
    const Packed packed{.begin_ns = span.begin_ns,
                        .end_ns = span.end_ns,
                        .number = span.number,
                        .lane = span.lane,
                        .name = place->second,
                        .track = span.track};
    std::memcpy(&bytes[i * sizeof packed], &packed, sizeof packed);
  }
  return names + '\0' + bytes;
}

std::vector<Span> unpack(const std::string& packed, std::set<std::string>& names) {
  std::istringstream text(packed);
  std::vector<const char*> places;
  for (std::string name; std::getline(text, name, '\0') && !name.empty();)
    places.push_back(names.insert(name).first->c_str());
  const auto begin = static_cast<size_t>(text.tellg());
  std::vector<Span> spans;
  for (size_t at = begin; at + sizeof(Packed) <= packed.size(); at += sizeof(Packed)) {
    Packed span;
    std::memcpy(&span, &packed[at], sizeof span);
    spans.push_back({.track = span.track,
                     .lane = span.lane,
                     .name = places[span.name],
                     .begin_ns = span.begin_ns,
                     .end_ns = span.end_ns,
                     .number = span.number});
  }
  return spans;
}

}  // namespace ddp
