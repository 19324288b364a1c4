// On the reference ops. A device whose clock counts its readings shows which timestamps a time lies between.
#include "train/observers/layer_times.h"

#include "tests/train/joined_network.h"
#include "tests/train/small.h"
#include "tests/train/token_network.h"
#include "tests/train/world.h"
#include "train/observers/layer_times_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

// Its clock goes on by 1 ms with each reading.
class CountingDevice final : public Device {
 public:
  std::string name() const override { return inner_->name(); }
  bool is_host() const override { return true; }
  Memory& host_memory() override { return inner_->host_memory(); }
  void* allocate(size_t bytes) override { return inner_->allocate(bytes); }
  void deallocate(void* memory) noexcept override { inner_->deallocate(memory); }
  void upload(void* device, const void* host, size_t bytes) override { inner_->upload(device, host, bytes); }
  void download(void* host, const void* device, size_t bytes) override { inner_->download(host, device, bytes); }
  void upload_ahead(void* device, const void* host, size_t bytes) override { upload(device, host, bytes); }
  void zero(void* device, size_t bytes) override { inner_->zero(device, bytes); }
  void synchronize() override {}
  void fence(int) override {}
  void await(int) override {}
  bool passed(int) override { return true; }
  void timestamp(int64_t* nanoseconds) override { *nanoseconds = 1'000'000 * ++readings_; }
  std::unique_ptr<GraphCache> graph_cache() override { return inner_->graph_cache(); }

 private:
  const std::unique_ptr<Device> inner_ = make_cpu_device();
  int64_t readings_ = 0;
};

// The pool leaves the last row and the last column of the convolution unread.
Network trimmed_network() {
  return Network("trimmed", {9, 9, 2}).conv2d(3, 3).relu().avg_pool2d(2).flatten().linear(7).relu().linear(4);
}

void expect_time(const PassTime& time, double ms, double flops, double bytes) {
  EXPECT_EQ(time.ms, ms);
  EXPECT_EQ(time.work.flops, flops);
  EXPECT_EQ(time.work.bytes, bytes);
}

TEST(LayerTimes, LieBetweenTheBoundariesOfEachPass) {
  const MemoryDataset data = small_data(16, {9, 9, 2});
  run_ranks(1, [&](Communicator& alone) {
    CountingDevice device;
    const auto ops = make_reference_ops(device);
    const Network network = trimmed_network();
    Fixture fixture({.batch_size = 16}, network, data, device, *ops, alone);
    const LayerTimes times = measure_layer_times(fixture.replica, network, data, fixture.sampler(), 2);
    EXPECT_EQ(times.samples, 16);
    EXPECT_EQ(times.ranks, 1);
    EXPECT_GE(times.passes, 1);
    EXPECT_LE(times.passes, 2);

    std::vector<std::string> rows;
    for (const LayerTime& layer : times.layers)
      rows.push_back(fmt::format("{}: {} ({}), {}", layer.name, layer.what, layer.kind, layer.output.elements()));
    EXPECT_EQ(rows,
              (std::vector<std::string>{"input: normalize (input), 128", "0: conv2d 3, 3 x 3 + relu (convolution), 108",
                                        "2: avg_pool2d 2 x 2, stride 2 (pool), 27", "4: linear 7 + relu (linear), 7",
                                        "6: linear 4 (linear), 4", "loss: softmax cross-entropy (loss), 4"}));

    const double image = 16 * 128 * 4, conv = 16 * 108 * 4, pooled = 16 * 27 * 4, hidden = 16 * 7 * 4, out = 16 * 4 * 4;
    const double product = 2.0 * 16 * 108 * 18, of_hidden = 2.0 * 16 * 27 * 7, of_out = 2.0 * 16 * 7 * 4;
    const double conv_weights = (3 * 18 + 3) * 4, hidden_weights = (27 * 7 + 7) * 4, out_weights = (7 * 4 + 4) * 4;
    const auto& layers = times.layers;
    expect_time(layers[0].forward, 1, 0, 16 * 162 + image);
    expect_time(layers[1].forward, 1, product, image + conv_weights + conv);
    expect_time(layers[1].weight_gradient, 2, product, conv + image + conv + conv_weights);  // to the end of the layer
    expect_time(layers[1].input_gradient, 0, 0, 0);  // nobody needs the gradient of the images
    expect_time(layers[2].forward, 1, 0, conv + pooled);
    expect_time(layers[2].weight_gradient, 0, 0, 0);
    expect_time(layers[2].input_gradient, 1, 0, pooled + conv);
    expect_time(layers[3].weight_gradient, 1, of_hidden, hidden + pooled + hidden + hidden_weights);
    expect_time(layers[3].input_gradient, 1, of_hidden, hidden + hidden_weights + pooled);
    expect_time(layers[4].forward, 1, of_out, hidden + out_weights + out);
    expect_time(layers[4].weight_gradient, 1, of_out, out + hidden + out_weights);
    expect_time(layers[4].input_gradient, 1, of_out, out + out_weights + hidden);
    expect_time(layers[5].input_gradient, 1, 0, 2 * out);
    EXPECT_EQ(times.pass_ms, 21);

    const MachineRates rates = measure_machine_rates(fixture.replica);
    const auto side = static_cast<double>(rates.side);
    EXPECT_EQ(rates.flops_per_second, 2 * side * side * side / 1e-3);
    EXPECT_EQ(rates.bytes_per_second, 2 * static_cast<double>(rates.copied) / 1e-3);
  });
}

bool is_sound(const PassTime& time) {
  const bool finite = std::isfinite(time.ms) && std::isfinite(time.work.flops) && std::isfinite(time.work.bytes);
  return finite && time.ms >= 0 && time.work.flops >= 0 && time.work.bytes >= 0;
}

LayerTimes sound_times(Fixture& fixture, const Network& network, const Dataset& data) {
  LayerTimes times = measure_layer_times(fixture.replica, network, data, fixture.sampler(), 1);
  for (const LayerTime& layer : times.layers)
    EXPECT_TRUE(is_sound(layer.forward) && is_sound(layer.weight_gradient) && is_sound(layer.input_gradient))
        << layer.name;
  EXPECT_TRUE(std::isfinite(times.pass_ms) && times.pass_ms >= 0);
  return times;
}

// A batch of one sample leaves a rank of two without samples. Three steps, the measurement, and three steps.
TEST(LayerTimes, LeaveTheTrainingUnchangedAndTakeEmptyShards) {
  const MemoryDataset data = small_data(40);
  for (const int64_t batch : {16, 1})
    run_world(2, [&](Communicator& rank, Device& device, Ops& ops) {
      std::vector<std::vector<float>> weights;
      std::vector<std::vector<double>> losses;
      for (const bool measured : {false, true}) {
        Fixture fixture({.batch_size = batch, .replica = {.sync_bn = true}}, norm_network(), data, device, ops, rank);
        losses.push_back(fixture.losses(0, 3));
        if (measured) {
          const LayerTimes times = sound_times(fixture, norm_network(), data);
          EXPECT_EQ(times.samples, batch == 16 ? 8 : 1 - rank.rank());
          EXPECT_EQ(times.ranks, 2);
        }
        const auto more = fixture.losses(3, 6);
        losses.back().insert(losses.back().end(), more.begin(), more.end());
        weights.push_back(fixture.replica.download_weights());
      }
      EXPECT_EQ(weights[0], weights[1]);
      EXPECT_EQ(losses[0], losses[1]);
    });
}

// A tied head announces nothing, so that its backward pass is one.
TEST(LayerTimes, AreThoseOfTokensAndJoinedLayersToo) {
  const TokenWindows windows(14);
  run_world(1, [&](Communicator& alone, Device& device, Ops& ops) {
    Fixture fixture({.batch_size = 4}, token_network(), windows, device, ops, alone);
    const LayerTimes times = sound_times(fixture, token_network(), windows);
    EXPECT_EQ(times.layers.front().name, "wte");
    EXPECT_EQ(times.layers.front().kind, "embedding");
    const LayerTime& head = times.layers.end()[-2];
    const double product = 2.0 * 4 * kWindow * 8 * kTokenVocabulary;
    EXPECT_EQ(head.what, "linear 11, no bias, tied");
    EXPECT_EQ(head.forward.work.flops, product);
    EXPECT_EQ(head.weight_gradient.work.bytes, 0);
    EXPECT_EQ(head.input_gradient.work.flops, 2 * product);
  });
  const MemoryDataset data = small_data(16);
  run_world(1, [&](Communicator& alone, Device& device, Ops& ops) {
    Fixture fixture({.batch_size = 4}, joined_network(), data, device, ops, alone);
    const LayerTimes times = sound_times(fixture, joined_network(), data);
    EXPECT_EQ(std::ranges::count(times.layers, "join", &LayerTime::kind), 4);
  });
}

PassTime pass(double ms, double flops, double bytes) { return {.ms = ms, .work = {.flops = flops, .bytes = bytes}}; }

TEST(LayerTimesText, HasRatesSharesAndSums) {
  LayerTimes times{.network = "net", .samples = 8, .ranks = 2, .passes = 3, .activations = DType::bf16, .pass_ms = 20};
  const MachineRates rates{.flops_per_second = 2e11, .side = 1024, .bytes_per_second = 4e10, .copied = 64 << 20};
  times.layers.push_back({.name = "0", .what = "conv2d 4", .kind = "convolution", .output = {8, 8, 4}});
  times.layers.back().forward = pass(2, 3e8, 4e7);
  times.layers.back().weight_gradient = pass(4, 3e8, 4e7);
  times.layers.push_back({.name = "1", .what = "relu", .kind = "activation", .output = {8, 8, 4}});
  times.layers.back().forward = pass(0, 0, 1e6);  // the clock stood still
  times.layers.back().input_gradient = pass(1, 0, 2e7);
  times.layers.push_back({.name = "2", .what = "conv2d 4", .kind = "convolution", .output = {8, 8, 4}});
  times.layers.back().forward = pass(1, 3e8, 4e7);
  EXPECT_EQ(
      layer_times_text(times, rates),
      "net: 8 samples on rank 0 of 2, activations in bf16; medians of 3 passes of 20.000 ms\n"
      "peak: 200.0 GFLOP/s, a product of 1024 x 1024 matrices; memory: 40.0 GB/s, a copy of 64 MiB; of rank 0, while "
      "all ranks run\n"
      "GFLOP/s count direct convolutions, whatever the algorithm; memory counts each tensor of a pass once. Without a "
      "weight time, input is the whole backward pass.\n\n"
      "| layer | op       | output    | forward ms | GFLOP/s |  peak | memory | weight ms | GFLOP/s | peak | memory | "
      "input ms | GFLOP/s | peak | memory |\n"
      "| ----- | -------- | --------- | ---------: | ------: | ----: | -----: | --------: | ------: | ---: | -----: | "
      "-------: | ------: | ---: | -----: |\n"
      "| 0     | conv2d 4 | 8 x 8 x 4 |      2.000 |   150.0 |  75 % |   50 % |     4.000 |    75.0 | 38 % |   25 % | "
      "         |         |      |        |\n"
      "| 1     | relu     | 8 x 8 x 4 |      0.000 |         |       |        |           |         |      |        | "
      "   1.000 |         |      |   50 % |\n"
      "| 2     | conv2d 4 | 8 x 8 x 4 |      1.000 |   300.0 | 150 % |  100 % |           |         |      |        | "
      "         |         |      |        |\n"
      "\n"
      "| kind        | layers | share | forward ms | GFLOP/s |  peak | memory | weight ms | GFLOP/s | peak | memory | "
      "input ms | GFLOP/s | peak | memory |\n"
      "| ----------- | ------ | ----- | ---------: | ------: | ----: | -----: | --------: | ------: | ---: | -----: | "
      "-------: | ------: | ---: | -----: |\n"
      "| convolution | 2      | 88 %  |      3.000 |   200.0 | 100 % |   67 % |     4.000 |    75.0 | 38 % |   25 % | "
      "         |         |      |        |\n"
      "| activation  | 1      | 12 %  |      0.000 |         |       |        |           |         |      |        | "
      "   1.000 |         |      |   50 % |\n"
      "| all         | 3      | 100 % |      3.000 |   200.0 | 100 % |   68 % |     4.000 |    75.0 | 38 % |   25 % | "
      "   1.000 |         |      |   50 % |\n");
  const std::string still = layer_times_text(times, {});  // the clock stood still in all runs of the product
  EXPECT_NE(still.find("\npeak: no GFLOP/s, "), std::string::npos) << still;
  EXPECT_EQ(still.find("%"), still.find("88 %") + 3) << still;  // of the kinds
  EXPECT_EQ(still.find("inf"), std::string::npos) << still;
}

}  // namespace
}  // namespace ddp::testing
