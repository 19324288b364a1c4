#include "data/picture_name.h"

#include "core/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ddp {
namespace {

struct UnreadKind {
  std::string_view ending, convert_to;
};
// Kinds that may be lossless become PNG.
constexpr UnreadKind kUnread[] = {{".heic", "jpg"}, {".heif", "jpg"}, {".avif", "jpg"}, {".jxl", "jpg"},
                                  {".jfif", "jpg"}, {".gif", "png"},  {".bmp", "png"},  {".tif", "png"},
                                  {".tiff", "png"}, {".ppm", "png"},  {".pgm", "png"}};

bool ends_in(std::string_view name, std::string_view ending) {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  return name.size() >= ending.size() &&
         std::equal(ending.rbegin(), ending.rend(), name.rbegin(), [&](char b, char a) { return same(a, b); });
}

}  // namespace

bool has_picture_name(std::string_view name) {
  return ends_in(name, ".jpg") || ends_in(name, ".jpeg") || ends_in(name, ".png") || ends_in(name, ".webp");
}

std::string_view unread_kind(std::string_view name) {
  const auto found = std::ranges::find_if(kUnread, [&](const UnreadKind& kind) { return ends_in(name, kind.ending); });
  return found == std::end(kUnread) ? std::string_view() : found->ending;
}

std::vector<std::string> conversion_notes(const std::map<std::string_view, int64_t>& kinds, std::string_view folder) {
  std::vector<std::string> notes;
  for (const auto& [ending, count] : kinds) {
    const UnreadKind& kind = *std::ranges::find(kUnread, ending, &UnreadKind::ending);
    notes.push_back(fmt::format(
        "{} {} {} not read; convert {}: find -L {} -iname '*{}' -exec mogrify -format {} {{}} +", count, ending,
        count == 1 ? "file is" : "files are", count == 1 ? "it" : "them", shell_word(folder), ending, kind.convert_to));
  }
  return notes;
}

}  // namespace ddp
