// The speed of each operation of automatic augmentation on one thread; tests/bench/augment compares it with
// torchvision.
//
//   augment_bench ROWS COLUMNS CHANNELS SECONDS OP MAGNITUDE nearest|bilinear      OP: a number of AugmentOp
//
// Prints images a second of the CPU's time. The image is noise; each repetition begins with a copy of it.
#include "data/augment/affine.h"
#include "data/augment/policy.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace ddp {
namespace {

double images_per_second(const AugmentStep& step, const ImageShape& shape, Interpolation interpolation,
                         double seconds) {
  std::vector<uint8_t> noise(static_cast<size_t>(shape.elements())), image = noise, scratch(scratch_bytes(shape));
  uint32_t state = 1;
  for (uint8_t& pixel : noise) pixel = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  const std::clock_t begin = std::clock();
  const auto elapsed = [&] { return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC; };
  int64_t done = 0;
  for (; elapsed() < seconds; ++done) {
    image = noise;
    apply_step(step, shape, interpolation, image, scratch);
  }
  return static_cast<double>(done) / elapsed();
}

int run(int argc, char** argv) {
  const int op = argc == 8 ? std::atoi(argv[5]) : -1;
  if (op < 0 || op >= kAugmentOps) {
    fmt::print(stderr, "augment_bench ROWS COLUMNS CHANNELS SECONDS OP MAGNITUDE nearest|bilinear\n");
    return 2;
  }
  const ImageShape shape{std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3])};
  const AugmentStep step{static_cast<AugmentOp>(op), std::atof(argv[6])};
  const auto interpolation = argv[7] == std::string("nearest") ? Interpolation::nearest : Interpolation::bilinear;
  fmt::print("{:.1f}\n", images_per_second(step, shape, interpolation, std::atof(argv[4])));
  return 0;
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) { return ddp::run(argc, argv); }
