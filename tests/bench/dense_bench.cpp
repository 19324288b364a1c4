// Times the layers of networks with depthwise convolutions and with linear layers over positions, on one core, in
// alternation: Ops::conv2d beside oneDNN's convolution of dense tensors. Prints milliseconds, the ratio, and our share
// of the floor: the larger of bytes / bandwidth of a copy, and multiply-adds / peak, both measured first.
//
//   dense_bench [rounds]
#include "device/buffer.h"
#include "device/cpu/device.h"
#include "median.h"
#include "ops/cpu/conv2d.h"
#include "ops/cpu/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

namespace ddp {
namespace {

struct Timed {
  const char* name;
  int64_t n, extent, in, out, kernel, stride, groups;

  Conv2dDesc desc() const {
    return {.input = {extent, extent, in},
            .input_format = {},
            .out_channels = out,
            .window = {kernel, stride, kernel == 4 ? 0 : kernel / 2},
            .groups = groups,
            .dense = true,
            .bias = false};
  }
};

constexpr Timed kTimed[] = {
    {"MobileNetV3", 8, 112, 16, 16, 3, 2, 16},
    {"MobileNetV3", 8, 56, 72, 72, 3, 2, 72},
    {"MobileNetV3", 8, 28, 88, 88, 3, 1, 88},
    {"MobileNetV3", 8, 28, 96, 96, 5, 2, 96},
    {"MobileNetV3", 8, 14, 240, 240, 5, 1, 240},
    {"MobileNetV3", 8, 7, 576, 576, 5, 1, 576},
    {"EfficientNet", 4, 112, 32, 32, 3, 1, 32},
    {"EfficientNet", 4, 112, 96, 96, 3, 2, 96},
    {"EfficientNet", 4, 56, 144, 144, 3, 1, 144},
    {"EfficientNet", 8, 28, 240, 240, 5, 1, 240},
    {"EfficientNet", 8, 7, 1152, 1152, 5, 1, 1152},
    {"EfficientNet", 8, 7, 1152, 1152, 3, 1, 1152},
    {"ConvNeXt", 4, 56, 96, 96, 7, 1, 96},
    {"ConvNeXt", 8, 14, 384, 384, 7, 1, 384},
    {"MobileNetV3", 8, 56, 16, 72, 1, 1, 1},
    {"MobileNetV3", 8, 28, 24, 88, 1, 1, 1},
    {"MobileNetV3", 8, 14, 240, 40, 1, 1, 1},
    {"MobileNetV3", 8, 7, 96, 576, 1, 1, 1},
    {"EfficientNet", 4, 112, 16, 96, 1, 1, 1},
    {"EfficientNet", 4, 56, 144, 24, 1, 1, 1},
    {"EfficientNet", 8, 7, 1152, 192, 1, 1, 1},
    {"ConvNeXt", 2, 56, 96, 384, 1, 1, 1},
    {"ConvNeXt", 2, 56, 384, 96, 1, 1, 1},
    {"ViT", 8, 14, 768, 2304, 1, 1, 1},
    {"ViT", 8, 14, 3072, 768, 1, 1, 1},
    {"ResNeXt", 4, 56, 128, 128, 3, 1, 32},
};

// One implementation with its memory. `run` takes the part: 0 forward, 1 weight gradient, 2 input gradient.
struct TimedConv {
  TimedConv(Device& device, const Conv2dDesc& desc, int64_t n, std::unique_ptr<Conv2d> made)
      : conv(std::move(made)), in{n, desc.input}, out{n, conv2d_output(desc)} {
    for (Buffer* const buffer : {&x, &dx}) *buffer = Buffer(device, sizeof(float) * in.elements());
    for (Buffer* const buffer : {&y, &dy}) *buffer = Buffer(device, sizeof(float) * out.elements());
    for (Buffer* const buffer : {&x, &dy}) std::fill_n(buffer->as<float>(), buffer->bytes() / sizeof(float), 0.25f);
    w.assign(desc.out_channels * desc.window.kernel * desc.window.kernel * desc.input.c / desc.groups, 0.01f);
    dw = w;
    conv->bind({w.data()}, {});
  }
  static Tensor tensor(const Buffer& buffer, const Shape& shape) { return {buffer.data(), shape, {}, DType::f32}; }
  void run(int part) {
    if (part == 0) conv->forward(tensor(x, in), tensor(y, out));
    if (part == 1)
      conv->backward_weight(tensor(x, in), tensor(y, out), tensor(dy, out), dw.data(), nullptr, Gradient::overwrite);
    if (part == 2) conv->backward_input(tensor(dy, out), tensor(dx, in));
  }

  std::unique_ptr<Conv2d> conv;
  Shape in, out;
  Buffer x, dx, y, dy;
  std::vector<float> w, dw;
};

struct Floors {
  double bytes_per_second = 0, products_per_second = 0;
};

// The bandwidth of a copy of 64 MiB, and the rate of a product of square matrices.
Floors measured_floors(Device& device, Ops& ops, int rounds) {
  Floors floors;
  constexpr size_t kBytes = size_t{64} << 20;
  const Buffer from(device, kBytes), to(device, kBytes);
  const int64_t sizes[] = {1};
  const Timed square{"", 1, 28, 768, 768, 1, 1, 1};
  TimedConv conv(device, square.desc(), 1, ops.conv2d(square.desc(), sizes));
  for (int r = 0; r < 4 * rounds; ++r) {
    floors.bytes_per_second = std::max(floors.bytes_per_second,
                                       2.0 * kBytes / seconds_of([&] { std::memcpy(to.data(), from.data(), kBytes); }));
    floors.products_per_second =
        std::max(floors.products_per_second, 784.0 * 768 * 768 / seconds_of([&] { conv.run(0); }));
  }
  return floors;
}

void time(Device& device, Ops& ops, const Timed& timed, const Floors& floors, int rounds) {
  const Conv2dDesc desc = timed.desc();
  const int64_t sizes[] = {timed.n};
  TimedConv own(device, desc, timed.n, ops.conv2d(desc, sizes));
  TimedConv peer(device, desc, timed.n, make_dnnl_conv2d(Workers{device, 1}, {}, desc, sizes));
  const double bytes = 4.0 * static_cast<double>(own.in.elements() + own.out.elements());
  const double products = static_cast<double>(own.out.elements()) * static_cast<double>(timed.kernel * timed.kernel) *
                          static_cast<double>(timed.in) / static_cast<double>(timed.groups);
  const double floor = std::max(bytes / floors.bytes_per_second, products / floors.products_per_second);
  fmt::print("{:13} {:2} x {:3}x{:<3} {:4} -> {:4} g{:<4} k{} s{}", timed.name, timed.n, timed.extent, timed.extent,
             timed.in, timed.out, timed.groups, timed.kernel, timed.stride);
  for (int part = 0; part < 3; ++part) {
    double ours = std::numeric_limits<double>::infinity(), theirs = ours;
    double spent = 0;  // of the peer: its slowest weight gradients take seconds
    for (int r = 0; r < rounds; ++r) {
      ours = std::min(ours, seconds_of([&] { own.run(part); }));
      if (spent > 1) continue;
      theirs = std::min(theirs, seconds_of([&] { peer.run(part); }));
      spent += theirs;
    }
    fmt::print("  | {:7.3f} {:8.3f} {:6.2f} {:4.0f} %", 1e3 * ours, 1e3 * theirs, theirs / ours, 100 * floor / ours);
  }
  fmt::print("\n");
}

void run(int rounds) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const Floors floors = measured_floors(*device, *ops, rounds);
  fmt::print("{}, one thread: copies {:.1f} GB/s, multiply-adds {:.1f} G/s\n", device->name(),
             floors.bytes_per_second / 1e9, floors.products_per_second / 1e9);
  fmt::print("forward, weight gradient, input gradient: ms, oneDNN's ms, ratio, share of the floor\n");
  for (const Timed& timed : kTimed)
    if (rounds > 0) time(*device, *ops, timed, floors, rounds);
}

}  // namespace
}  // namespace ddp

int main(int count, char** arguments) { ddp::run(count > 1 ? std::atoi(arguments[1]) : 10); }
