#include "device/cuda/kernel_image.h"

#include <algorithm>
#include <charconv>

namespace ddp {
namespace {

KernelImage image_of(std::string_view architecture, int capability) {
  int number = 0;
  const char* const end = architecture.data() + architecture.size();
  const auto [rest, error] = std::from_chars(architecture.data(), end, number);
  if (error != std::errc()) return KernelImage::binary;
  const std::string_view suffix(rest, end - rest);
  const bool exact = suffix.starts_with('a'), family = suffix.starts_with('f');  // such as 90a, 100f
  if (exact ? capability != number : capability < number) return KernelImage::none;
  if (family && capability / 10 != number / 10) return KernelImage::none;
  if (!suffix.ends_with("-virtual") && capability / 10 == number / 10) return KernelImage::binary;
  return suffix.ends_with("-real") ? KernelImage::none : KernelImage::ptx;
}

}  // namespace

KernelImage kernel_image(std::string_view built, int capability) {
  KernelImage best = KernelImage::none;
  while (!built.empty()) {
    const std::string_view first = built.substr(0, built.find(','));
    best = std::max(best, image_of(first, capability));
    built.remove_prefix(std::min(built.size(), first.size() + 1));
  }
  return best;
}

std::string_view built_architectures() { return DDP_ARCHITECTURES; }

}  // namespace ddp
