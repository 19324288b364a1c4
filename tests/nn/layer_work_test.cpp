#include "nn/layer_work.h"

#include "nn/flops.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

constexpr int64_t kSamples = 4;

PlannedLayer planned() {
  return {.x = 100, .skip = 10, .y = 1000, .dy = 2000, .dx = 100, .dskip = 10, .saves_x = true, .saves_y = false};
}

void expect(const PassWork& work, double flops, double bytes) {
  EXPECT_EQ(work.flops, flops);
  EXPECT_EQ(work.bytes, bytes);
}

TEST(LayerWork, CountsEachTensorOfAPassOnce) {
  Network net("net", {5, 5, 2});
  net.conv2d(3, 3);
  const LayerSpec& conv = net.layers()[0];
  const double product = kSamples * forward_flops(conv);
  ASSERT_EQ(product, kSamples * 2 * 3 * 3 * 3 * 3 * 3 * 2);
  const LayerWork work = layer_work(conv, planned(), {.weights = 7, .gradients = 5}, true, kSamples);
  expect(work.forward, product, 100 + 10 + 7 + 1000);
  expect(work.weight_gradient, product, 2000 + 100 + 5);
  expect(work.input_gradient, product, 2000 + 7 + 100 + 10);

  // The backward pass of a layer that announces no weight gradient is one pass, such as that of a tied head.
  const LayerWork whole = layer_work(conv, planned(), {.weights = 7, .gradients = 5}, false, kSamples);
  expect(whole.weight_gradient, 0, 0);
  expect(whole.input_gradient, 2 * product, 2000 + 100 + 7 + 5 + 100 + 10);
}

TEST(LayerWork, LeavesOutWhatNobodyReads) {
  Network net("net", {5, 5, 2});
  net.conv2d(3, 3);
  LayerSpec conv = net.layers()[0];
  const double product = kSamples * forward_flops(conv);
  PlannedLayer first = planned();
  first.skip = first.dskip = first.dx = 0;
  first.saves_y = true;
  const LayerWork work = layer_work(conv, first, {.weights = 7, .gradients = 5}, true, kSamples);
  expect(work.weight_gradient, product, 2000 + 100 + 1000 + 5);
  expect(work.input_gradient, 0, 0);

  conv.trains_weight = false;
  PlannedLayer frozen = planned();
  frozen.saves_x = false;
  const LayerWork of_bias = layer_work(conv, frozen, {.weights = 7, .gradients = 1}, true, kSamples);
  expect(of_bias.weight_gradient, 0, 2000 + 1);
  expect(of_bias.input_gradient, product, 2000 + 7 + 100 + 10);

  frozen.dy = 0;
  const LayerWork none = layer_work(conv, frozen, {.weights = 7}, false, kSamples);
  expect(none.forward, product, 100 + 10 + 7 + 1000);
  expect(none.input_gradient, 0, 0);
}

TEST(LayerWork, OfAnAttentionHasTwoGradientsOfEachProduct) {
  Network net("net", {6, 1, 24});
  net.scaled_dot_product_attention(2, false);
  const LayerSpec& attention = net.layers()[0];
  const double products = kSamples * 2 * (2 * 6 * 6 * 8);
  const LayerWork work = layer_work(attention, planned(), {}, false, kSamples);
  expect(work.forward, products, 100 + 10 + 1000);
  expect(work.input_gradient, 2 * products, 2000 + 100 + 100 + 10);
}

TEST(LayerWork, OfACopyMovesItsTensors) {
  expect(copy_work(planned()).forward, 0, 100 + 1000);
  expect(copy_work(planned()).input_gradient, 0, 2000 + 100);
}

}  // namespace
}  // namespace ddp
