// Changes of the pixels of an HWC uint8 image of 1 or 3 channels, in place, each as torchvision's function of the same
// name changes a uint8 tensor. With b(x, y) = f x + (1 - f) y, limited to 0 ... 255 and cut off to a whole number:
//
//   brightness  b(pixel, 0)
//   saturation  b(pixel, grey of the pixel); nothing where there is one channel
//   contrast    b(pixel, mean grey of the image)
//   sharpness   b(pixel, mean of 3 x 3 pixels, the centre five times); at the edge b(pixel, pixel)
//
// grey = 0.2989 red + 0.587 green + 0.114 blue, cut off.
#pragma once

#include "core/shape.h"

#include <cstdint>
#include <span>

namespace ddp {

void adjust_brightness(double factor, std::span<uint8_t> image);
void adjust_saturation(double factor, const ImageShape& shape, std::span<uint8_t> image);
void adjust_contrast(double factor, const ImageShape& shape, std::span<uint8_t> image);

// `scratch` has at least the size of the image. An image of one or two rows or columns stays as it is.
void adjust_sharpness(double factor, const ImageShape& shape, std::span<uint8_t> image, std::span<uint8_t> scratch);

void posterize(int bits, std::span<uint8_t> image);         // keeps the upper bits, 0 to 8
void solarize(double threshold, std::span<uint8_t> image);  // inverts pixels from the threshold on

// Each channel alone. Autocontrast stretches the values to 0 ... 255. Equalize makes their distribution even.
void autocontrast(const ImageShape& shape, std::span<uint8_t> image);
void equalize(const ImageShape& shape, std::span<uint8_t> image);

}  // namespace ddp
