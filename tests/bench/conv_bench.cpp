// Times convolutions on one core, in alternation. The unit is GFLOP/s of the direct algorithm.
//   ResNet-18  the direct algorithm and Winograd's, in f32 and bf16; - where oneDNN has no bf16 for this processor
//   LeNet      our kernels and oneDNN's, also as shares of two measured peaks: FMA, and the best direct 3x3 convolution
// Then it times each of LeNet's ops.
//
//   conv_bench [rounds]
#include "core/bf16.h"
#include "device/buffer.h"
#include "device/cpu/device.h"
#include "median.h"
#include "ops/cpu/blocked_conv2d.h"
#include "ops/cpu/conv2d.h"
#include "ops/cpu/layout.h"
#include "ops/cpu/ops.h"
#include "ops/cpu/simd/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace ddp {
namespace {

struct Memory {
  Memory(Device& device, Shape shape, Format format, DType dtype = DType::f32)
      : buffer(device, size_of(dtype) * stored_elements(shape, format)), tensor{buffer.data(), shape, format, dtype} {
    const int64_t used = tensor.stored();
    for (int64_t i = 0; i < used; ++i) {
      const float value = static_cast<float>(i % 17 - 8) / 16;
      if (dtype == DType::bf16)
        buffer.as<uint16_t>()[i] = bf16_of_float(value);
      else
        tensor.f32()[i] = value;
    }
  }
  Buffer buffer;
  Tensor tensor;
};

// One convolution with its memory. `run` takes the part: 0 forward, 1 weight gradient, 2 input gradient.
struct Layer {
  Layer(Device& device, const Conv2dDesc& desc, int64_t n, std::unique_ptr<Conv2d> made, DType dtype = DType::f32)
      : conv(std::move(made)),
        x(device, {n, desc.input}, desc.input_format, dtype),
        y(device, {n, conv2d_output(desc)}, conv->output_format(), dtype),
        dy(device, {n, conv2d_output(desc)}, conv->output_format(), dtype),
        dx(device, {n, desc.input}, desc.input_format, dtype),
        w(desc.out_channels * desc.window.kernel * desc.window.kernel * desc.input.c, 0.01f),
        b(desc.out_channels, 0.1f),
        dw(w.size()),
        db(b.size()),
        flop(2.0 * static_cast<double>(n) * static_cast<double>(conv2d_output(desc).h * conv2d_output(desc).w) *
             static_cast<double>(w.size())) {
    conv->bind({w.data()}, {b.data()});
  }
  void run(int part) {
    if (part == 0) conv->forward(x.tensor, y.tensor);
    if (part == 1) conv->backward_weight(x.tensor, y.tensor, dy.tensor, dw.data(), db.data(), Gradient::overwrite);
    if (part == 2) conv->backward_input(dy.tensor, dx.tensor);
  }
  // GFLOP/s of one part; it repeats the part until the time is long enough to measure.
  double rate(int part) {
    const int repeats = static_cast<int>(std::max(1.0, 4e8 / flop));
    return flop * repeats / seconds_of([&] {
             for (int i = 0; i < repeats; ++i) run(part);
           }) /
           1e9;
  }

  std::unique_ptr<Conv2d> conv;
  Memory x, y, dy, dx;
  std::vector<float> w, b, dw, db;
  double flop;
};

// GFLOP/s of multiply-adds on registers and L1 cache only: one tile of our kernel over a short run.
double peak(const Kernels& kernels, int rounds) {
  const int lanes = kernels.widest_lanes;
  alignas(64) static float x[5 * 16 * 16], y[5 * 5 * 16], w[16 * kTile];
  LaneSum sum{.x = x,
              .x_pixel = lanes,
              .x_segment = 0,
              .x_step = 5 * lanes,
              .w = w,
              .w_segment = 0,
              .segments = 500,
              .count = 16,
              .pixels = 5,
              .y = y,
              .y_pixel = 5 * lanes,
              .y_row = lanes,
              .rows = kTile,
              .bias = nullptr,
              .relu = false,
              .add = false};
  double best = 0;
  for (int i = 0; i < rounds; ++i)
    best = std::max(best, 20 * 2.0 * 500 * 16 * 25 * lanes / seconds_of([&] {
                            for (int k = 0; k < 20; ++k) kernels.lanes(lanes).sum(sum);
                          }) / 1e9);
  return best;
}

void compare(Device& device, const char* name, const Conv2dDesc& base, int64_t n, int rounds, double fma, double wide) {
  const Workers workers{device, 1};
  const int64_t sizes[] = {n};
  Conv2dDesc desc = base;
  desc.input_format = Format::batch_interleaved(choose_lanes(workers, sizes));
  Layer own(device, desc, n, make_lane_conv2d(workers, desc));
  desc.input_format = {};
  Layer peer(device, desc, n, make_dnnl_conv2d(workers, {}, desc, sizes));
  const char* parts[] = {"forward", "weight gradient", "input gradient"};
  for (int part = 0; part < 3; ++part) {
    double ours = 0, theirs = 0;
    for (int i = 0; i < rounds; ++i) {
      ours = std::max(ours, own.rate(part));
      theirs = std::max(theirs, peer.rate(part));
    }
    fmt::print(
        "{:6} n={:<4} {:16} own {:6.1f}  oneDNN {:6.1f} GFLOP/s  ratio {:4.2f}  of FMA peak {:3.0f} %  of wide conv "
        "{:3.0f} %\n",
        name, n, parts[part], ours, theirs, ours / theirs, 100 * ours / fma, 100 * ours / wide);
  }
}

// ResNet-18's convolutions for images of 28 x 28. Returns the rate of the best direct 3x3 convolution on full-size
// images in f32. Small images do not count: much of their nominal work lies in the padding and is not computed.
double resnet(Device& device, int64_t n, int rounds) {
  struct Kind {
    int64_t extent, in, out, kernel, stride, times;
  };
  constexpr Kind kinds[] = {{28, 1, 64, 3, 1, 1},    {28, 64, 64, 3, 1, 4},   {28, 64, 128, 3, 2, 1},
                            {28, 64, 128, 1, 2, 1},  {14, 128, 128, 3, 1, 3}, {14, 128, 256, 3, 2, 1},
                            {14, 128, 256, 1, 2, 1}, {7, 256, 256, 3, 1, 3},  {7, 256, 512, 3, 2, 1},
                            {7, 256, 512, 1, 2, 1},  {4, 512, 512, 3, 1, 3}};
  struct Way {
    const char* name;
    DType dtype;
    bool winograd;
    bool widen = false;
  };
  constexpr Way ways[] = {{"direct", DType::f32, false},
                          {"Winograd", DType::f32, true},
                          {"bf16", DType::bf16, false},
                          {"bf16 Winograd", DType::bf16, true},
                          {"bf16 as f32", DType::bf16, true, true}};
  const Workers workers{device, 1};
  const auto scratch = std::make_shared<Scratch>(device);
  const int64_t sizes[] = {n};
  std::array<double, std::size(ways)> total = {};
  double best_direct = 0;
  fmt::print("\nResNet-18's convolutions, {} samples: forward, weight gradient, input gradient, in GFLOP/s\n{:28}", n,
             "");
  for (const Way& way : ways) fmt::print("{:>16}{:8}", way.name, "");
  for (const Kind& k : kinds) {
    Conv2dDesc desc{.input = {k.extent, k.extent, k.in},
                    .input_format = k.in == 1 ? Format{} : Format::blocked_channels(16),
                    .out_channels = k.out,
                    .window = {k.kernel, k.stride, k.kernel / 2},
                    .input_gradient = k.in != 1};
    std::vector<std::unique_ptr<Layer>> layers;  // null: not offered
    for (const Way& way : ways) {
      const bool offered = way.dtype == DType::f32 || way.widen || multiplies_bf16(workers);
      layers.push_back(
          offered ? std::make_unique<Layer>(
                        device, desc, n,
                        make_blocked_conv2d(workers, {way.dtype, way.winograd, scratch, true, way.widen}, desc, sizes),
                        way.dtype)
                  : nullptr);
    }
    std::array<std::array<double, 3>, std::size(ways)> rate = {};
    for (int r = 0; r < rounds; ++r)
      for (size_t way = 0; way < layers.size(); ++way)
        for (int part = 0; layers[way] && part < (desc.input_gradient ? 3 : 2); ++part)
          rate[way][part] = std::max(rate[way][part], layers[way]->rate(part));
    if (k.kernel == 3 && k.extent == 28) best_direct = std::max(best_direct, rate[0][0]);
    fmt::print("\n{}x {:3} -> {:3} at {:2}, {}x{} / {} ", k.times, k.in, k.out, k.extent, k.kernel, k.kernel, k.stride);
    for (size_t way = 0; way < layers.size(); ++way) {
      fmt::print("   ");
      for (const double gflops : rate[way]) {
        fmt::print(" {:>6}", layers[way] ? fmt::format("{:.0f}", gflops) : "-");
        if (gflops > 0) total[way] += static_cast<double>(k.times) * layers[way]->flop / gflops / 1e9;
      }
    }
  }
  fmt::print("\nall of them:");
  for (size_t way = 0; way < total.size(); ++way)
    fmt::print("  {} {}", ways[way].name,
               total[way] > 0 ? fmt::format("{:.1f} samples/s", static_cast<double>(n) / total[way]) : "-");
  fmt::print("\n");
  return best_direct;
}

void lenet(Device& device, int64_t n, int rounds) {
  const auto ops = make_cpu_ops(device, {});
  const int64_t sizes[] = {n};
  Conv2dDesc first{.input = {26, 26, 1},
                   .input_format = {},
                   .out_channels = 20,
                   .window = {3},
                   .relu = true,
                   .input_gradient = false};
  first.input_format = ops->input_format(&first, sizes);
  const Format f = first.input_format;
  const Conv2dDesc second{.input = {12, 12, 20}, .input_format = f, .out_channels = 50, .window = {5}, .relu = true};
  Layer c1(device, first, n, ops->conv2d(first, sizes)), c2(device, second, n, ops->conv2d(second, sizes));
  const auto p1 = ops->pool2d({.input = {24, 24, 20}, .format = f, .window = {2, 2}}, sizes);
  const auto p2 = ops->pool2d({.input = {8, 8, 50}, .format = f, .window = {2, 2}}, sizes);
  const auto l1 = ops->linear({800, 128, f, true}, sizes), l2 = ops->linear({128, 10, f}, sizes);
  Memory s2(device, {n, {4, 4, 50}}, f), ds2(device, {n, {4, 4, 50}}, f), h(device, {n, {1, 1, 128}}, f),
      dh(device, {n, {1, 1, 128}}, f), z(device, {n, {1, 1, 10}}, f), dz(device, {n, {1, 1, 10}}, f);
  std::vector<float> w1(102400, 0.01f), b1(128), w2(1280, 0.02f), b2(10), dw1(102400), db1(128), dw2(1280), db2(10);
  std::vector<uint8_t> pixels(n * 784, 77);
  std::vector<int32_t> labels(n, 3);
  float stats[2];

  std::map<std::string, double> spent;
  const auto timed = [&](const char* name, const std::function<void()>& work) { spent[name] += seconds_of(work); };
  const DeviceBatch batch{
      .samples = pixels.data(), .labels = labels.data(), .size = static_cast<int64_t>(labels.size())};
  const auto step = [&] {
    timed("bind", [&] {
      c1.conv->bind({c1.w.data()}, {c1.b.data()});
      c2.conv->bind({c2.w.data()}, {c2.b.data()});
      l1->bind({w1.data()}, {b1.data()});
      l2->bind({w2.data()}, {b2.data()});
    });
    timed("normalize", [&] { ops->normalize(batch, {28, 28, 1}, {}, {}, c1.x.tensor); });
    timed("conv1 forward", [&] { c1.run(0); });
    timed("pool1 forward", [&] { p1->forward(c1.y.tensor, c2.x.tensor); });
    timed("conv2 forward", [&] { c2.run(0); });
    timed("pool2 forward", [&] { p2->forward(c2.y.tensor, s2.tensor); });
    timed("linear1 forward", [&] { l1->forward(s2.tensor, h.tensor); });
    timed("linear2 forward", [&] { l2->forward(h.tensor, z.tensor); });
    timed("softmax",
          [&] { ops->softmax_cross_entropy_backward(z.tensor, batch, 1, 0, dz.tensor, stats, Gradient::overwrite); });
    timed("linear2 dw",
          [&] { l2->backward_weight(h.tensor, z.tensor, dz.tensor, dw2.data(), db2.data(), Gradient::overwrite); });
    timed("linear2 dx", [&] { l2->backward_input(dz.tensor, dh.tensor); });
    timed("linear1 dw",
          [&] { l1->backward_weight(s2.tensor, h.tensor, dh.tensor, dw1.data(), db1.data(), Gradient::overwrite); });
    timed("linear1 dx", [&] { l1->backward_input(dh.tensor, ds2.tensor); });
    timed("pool2 backward", [&] { p2->backward({}, {}, ds2.tensor, c2.dy.tensor); });
    timed("conv2 dw", [&] { c2.run(1); });
    timed("conv2 dx", [&] { c2.run(2); });
    timed("pool1 backward", [&] { p1->backward({}, {}, c2.dx.tensor, c1.dy.tensor); });
    timed("conv1 dw", [&] { c1.run(1); });
  };
  step();
  double best = std::numeric_limits<double>::infinity();
  std::map<std::string, double> parts;
  const int steps = static_cast<int>(std::max<int64_t>(1, 256 / n));
  for (int r = 0; r < rounds; ++r) {
    spent.clear();
    const double t = seconds_of([&] {
                       for (int i = 0; i < steps; ++i) step();
                     }) /
                     steps;
    if (t < best) {
      best = t;
      parts = spent;
    }
  }
  fmt::print("\nLeNet without the update, {} samples, {}: {:.0f} samples/s, {:.2f} ms a step\n", n,
             f.block == 16 ? "lanes(16)" : "lanes(8)", static_cast<double>(n) / best, 1e3 * best);
  for (const auto& [name, t] : parts)
    fmt::print("  {:16} {:8.3f} ms  {:4.1f} %\n", name, 1e3 * t / steps, 100 * t / steps / best);
}

void run(int rounds) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});  // sets the number of threads
  const double fma = peak(kernels_of(best_instruction_set()), 50 * rounds), best = resnet(*device, 64, rounds);
  fmt::print("\n{}, one thread: multiply-adds {:.1f} GFLOP/s, best direct 3x3 convolution {:.1f}\n\n", device->name(),
             fma, best);
  const Conv2dDesc first{.input = {26, 26, 1}, .input_format = {}, .out_channels = 20, .window = {3}, .relu = true};
  const Conv2dDesc second{.input = {12, 12, 20}, .input_format = {}, .out_channels = 50, .window = {5}, .relu = true};
  for (const int64_t n : {128, 8}) {
    compare(*device, "conv1", first, n, rounds, fma, best);
    compare(*device, "conv2", second, n, rounds, fma, best);
  }
  for (const int64_t n : {128, 8}) lenet(*device, n, 2 * rounds);
}

}  // namespace
}  // namespace ddp

int main(int count, char** arguments) { ddp::run(count > 1 ? std::atoi(arguments[1]) : 5); }
