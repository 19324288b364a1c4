#include "app/inputs/excluded_pictures.h"

#include "core/error.h"
#include "core/printable.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace ddp {
namespace {

std::string more_than(size_t count, size_t most) {
  return count > most ? fmt::format("\n  and {} more", count - most) : "";
}

}  // namespace

PartState excluded_pictures(const PartFacts& part, const PartState* resumed, int64_t next) {
  PartState state;
  if (!resumed) {
    for (const auto& [picture, reason] : part.facts.broken) state.left_out.push_back(picture);
    return state;
  }
  // In other data it may not be.
  const auto is_there = [&](int64_t picture) { return picture >= 0 && picture < part.list.size(); };
  std::ranges::copy_if(resumed->left_out, std::back_inserter(state.left_out), is_there);
  // A picture that has ended the run may have been mended.
  const auto is_broken = [&](int64_t picture) {
    return std::ranges::binary_search(part.facts.broken, picture, {}, &std::pair<int64_t, std::string>::first);
  };
  state.sizes = resumed->sizes;
  for (const BrokenPicture& one : resumed->broken) state.sizes.emplace(one.picture, one.bytes);
  for (const BrokenPicture& one : resumed->broken)
    if (is_there(one.picture) && (one.step < next || is_broken(one.picture))) state.broken.push_back(one);
  const std::vector<BrokenPicture> known = state.broken;
  for (const auto& [picture, reason] : part.facts.broken) {
    if (std::ranges::binary_search(state.left_out, picture) ||
        std::ranges::binary_search(known, picture, {}, &BrokenPicture::picture))
      continue;
    const auto size = part.earlier_sizes.find(picture);
    state.broken.push_back({.picture = picture,
                            .bytes = size == part.earlier_sizes.end() ? part.list.bytes(picture) : size->second,
                            .step = next,
                            .reason = fmt::format("{}: {}", printable(part.list.path(picture)), reason)});
  }
  std::ranges::sort(state.broken, {}, &BrokenPicture::picture);
  return state;
}

uint64_t hash_at_start(const PartFacts& part, const PartState& state) {
  std::map<int64_t, int64_t> sizes;
  for (const int64_t picture : state.left_out)
    if (const auto size = part.earlier_sizes.find(picture); size != part.earlier_sizes.end()) sizes.insert(*size);
  for (const BrokenPicture& one : state.broken) sizes[one.picture] = one.bytes;
  for (const auto& [picture, bytes] : state.sizes) sizes[picture] = bytes;
  return part.list.hash(sizes);
}

std::string skipped_file(const std::string& part) { return fmt::format("skipped-{}.txt", part); }

std::string left_out_lines(const PartFacts& part, const PartState& state, size_t most) {
  const std::map<int64_t, std::string> reasons(part.facts.broken.begin(), part.facts.broken.end());
  std::string lines;
  for (size_t i = 0; i < std::min(state.left_out.size(), most); ++i) {
    const auto reason = reasons.find(state.left_out[i]);
    const bool known = reason != reasons.end() && !reason->second.empty();
    lines += fmt::format("\n  {}{}{}", printable(part.list.path(state.left_out[i])), known ? ": " : "",
                         known ? reason->second : "");
  }
  return lines + more_than(state.left_out.size(), most);
}

std::string broken_lines(const std::vector<BrokenPicture>& broken, size_t most) {
  return lines_of(std::span(broken).first(std::min(broken.size(), most))) + more_than(broken.size(), most);
}

}  // namespace ddp
