// The operations of automatic augmentation beside torchvision's, and which of them a policy draws.
#include "data/augment/policy.h"

#include "data/augment/affine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace ddp {
namespace {

using Policy = AutoAugmentConfig::Policy;
using Pixels = std::vector<uint8_t>;

// In the order of AugmentOp.
const std::vector<std::string> kNames{"Identity",  "ShearX",     "ShearY",       "TranslateX", "TranslateY",
                                      "Rotate",    "Brightness", "Color",        "Contrast",   "Sharpness",
                                      "Posterize", "Solarize",   "AutoContrast", "Equalize"};

AugmentOp op_named(const std::string& name) {
  const auto found = std::ranges::find(kNames, name);
  EXPECT_NE(found, kNames.end()) << name;
  return static_cast<AugmentOp>(found - kNames.begin());
}

// `pixel` of expected/make_augment.py.
uint8_t pixel(const std::string& picture, int64_t y, int64_t x, int64_t c) {
  if (picture == "flat") return static_cast<uint8_t>(140 + 40 * c);
  if (picture == "gradient") return static_cast<uint8_t>(9 * x + 5 * y + 30 * c + 20);
  auto n = static_cast<uint32_t>(x * 73856093 + y * 19349663 + c * 83492791);
  n = (n ^ n >> 13) * 1274126177u;
  return static_cast<uint8_t>(picture == "dull" ? (n >> 24) / 2 + 40 : n >> 24);
}

Pixels image_of(const std::string& picture, const ImageShape& shape) {
  Pixels image;
  for (int64_t y = 0; y < shape.h; ++y)
    for (int64_t x = 0; x < shape.w; ++x)
      for (int64_t c = 0; c < shape.c; ++c) image.push_back(pixel(picture, y, x, c));
  return image;
}

Pixels bytes_of(const std::string& hex) {
  Pixels bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

// expected/make_augment.py describes the lines.
TEST(AutoAugment, OperationsAndMagnitudesAreTorchvisions) {
  std::ifstream file(std::string(DDP_EXPECTED_DATA) + "/augment.txt");
  std::map<std::string, int> seen;
  for (std::string line; std::getline(file, line);) {
    SCOPED_TRACE(line.substr(0, 80));
    std::istringstream words(line);
    std::string kind, name;
    ImageShape shape;
    words >> kind;
    if (kind == "magnitude") {
      std::string policy;
      int bin = 0;
      double expected = NAN;
      words >> policy >> name >> bin >> shape.h >> shape.w >> expected;
      ASSERT_TRUE(words);
      EXPECT_EQ(magnitude_of(policy == "ra" ? Policy::ra : Policy::ta_wide, op_named(name), bin, shape), expected);
    } else {
      std::string interpolation, picture, hex;
      AugmentStep step;
      words >> interpolation >> picture >> shape.h >> shape.w >> shape.c >> name >> step.magnitude >> hex;
      ASSERT_TRUE(words);
      step.op = op_named(name);
      const Pixels before = image_of(picture, shape);
      Pixels image = before, scratch(scratch_bytes(shape), 99);
      apply_step(step, shape, interpolation == "nearest" ? Interpolation::nearest : Interpolation::bilinear, image,
                 scratch);
      const Pixels expected = hex == "same" ? before : bytes_of(hex);
      EXPECT_EQ(image, expected);
      name += shape.c == 1 ? " grey" : "";
    }
    ++seen[kind + " " + name];
  }
  for (const std::string& name : kNames)
    for (const char* grey : {"", " grey"}) EXPECT_GE(seen["op " + name + grey], 2) << name << grey;
  EXPECT_EQ(seen["magnitude Rotate"], 8);
}

constexpr ImageShape kShape{20, 30, 3};
constexpr int kDraws = 31 * 900;

// How often each value occurs. Each count is a binomial number; six standard deviations are never reached by chance.
void expect_even(const std::map<double, int>& counts, size_t values) {
  EXPECT_EQ(counts.size(), values);
  double draws = 0;
  for (const auto& [value, count] : counts) draws += count;
  const double expected = draws / static_cast<double>(values);
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, expected, 6 * std::sqrt(expected)) << value;
}

TEST(AutoAugment, DrawsAllOperationsMagnitudesAndSignsEvenly) {
  for (const Policy policy : {Policy::ta_wide, Policy::ra}) {
    const AutoAugmentConfig config{.policy = policy, .ra_magnitude = 11, .seed = 5};
    for (int number = 0; number < config.operations(); ++number) {
      std::map<double, int> ops, rotations, thresholds, signs;
      for (int64_t draw = 0; draw < kDraws; ++draw) {
        const SampleKey key{.index = draw % 3000, .epoch = draw / 3000};
        const AugmentStep step = draw_step(config, kShape, key, number);
        ++ops[static_cast<double>(step.op)];
        if (step.op == AugmentOp::rotate) ++rotations[std::abs(step.magnitude)];
        if (step.op == AugmentOp::solarize) ++thresholds[step.magnitude];
        if (step.op == AugmentOp::sharpness && step.magnitude != 0) ++signs[std::copysign(1, step.magnitude)];
      }
      expect_even(ops, kAugmentOps);
      const size_t bins = policy == Policy::ra ? 1 : kAugmentBins;
      expect_even(rotations, bins);
      expect_even(thresholds, bins);
      expect_even(signs, 2);
      if (policy == Policy::ra) {
        EXPECT_EQ(rotations.begin()->first, magnitude_of(policy, AugmentOp::rotate, 11, kShape));
      }
    }
  }
}

TEST(AutoAugment, TheTwoOperationsOfAnImageAreIndependent) {
  const AutoAugmentConfig config{.policy = Policy::ra};
  std::map<double, int> pairs;
  for (int64_t index = 0; index < kDraws; ++index) {
    const auto op = [&](int number) {
      return static_cast<double>(draw_step(config, kShape, {.index = index}, number).op);
    };
    ++pairs[op(0) * kAugmentOps + op(1)];
  }
  expect_even(pairs, kAugmentOps * kAugmentOps);
}

}  // namespace
}  // namespace ddp
