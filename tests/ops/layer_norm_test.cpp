// Layer norm and group norm.
#include "tests/ops/backend.h"

#include <map>

namespace ddp::testing {
namespace {

struct LayerNormCase {
  int64_t n, h, w, c, groups;
  On on = On::every;
};

const LayerNormCase kLayerNormCases[] = {
    {1, 1, 1, 1, 0},
    {3, 1, 1, 5, 0},
    {2, 3, 1, 16, 0},
    {5, 7, 1, 33, 0},
    {2, 5, 2, 768, 0},
    {9, 80, 1, 770, 0, On::cpu},  // as many items as there are at most
    {70, 9, 1, 24, 0, On::cuda},  // several groups of blocks
    {2, 4, 4, 8, 2},
    {1, 1, 1, 6, 6},
    {3, 7, 5, 20, 4},
    {2, 5, 3, 64, 32},
    {2, 3, 3, 40, 1},
    {2, 17, 16, 48, 3},
};

std::string name_of(const LayerNormCase& c) {
  return fmt::format("n{}_{}x{}x{}_groups{}", c.n, c.h, c.w, c.c, c.groups);
}

class LayerNorms : public CaseTest<LayerNormCase> {
 protected:
  void expect_dx(const Values& actual, const Values& expected) const {
    const bool constant = c.groups == 0 ? c.c == 1 : c.h * c.w * c.c == c.groups;  // a mean of one value
    if (!constant) return expect_activations(actual, expected, "dx");
    for (const float v : actual) EXPECT_NEAR(v, 0, 1e-5);
  }
};
INSTANTIATE_TEST_SUITE_P(, LayerNorms, on_each_backend(kLayerNormCases), kCaseName);

TEST_P(LayerNorms, EqualsTheReference) {
  const Shape shape{c.n, {c.h, c.w, c.c}};
  const int64_t count = shape.elements();
  const LayerNormDesc desc{.input = shape.image, .groups = c.groups, .epsilon = 1e-3f};
  const Values dy = random(count, 2), scale = random_values(c.c, 3), shift = random_values(c.c, 4),
               dscale0 = random_values(c.c, 5), dshift0 = random_values(c.c, 6);
  // The second mean is large beside the deviation.
  for (const float mean : {0.5f, type == DType::bf16 ? 100.0f : 1e4f}) {
    SCOPED_TRACE(mean);
    Values x = random_values(count, 1);
    for (int64_t i = 0; i < count; ++i) x[i] = mean + 2 * x[i] + 0.25f * static_cast<float>(i % c.c % 5);
    x = rounded(x, type);

    Values y(count), dx(count), dscale(c.c), dshift(c.c), dscale_added = dscale0, dshift_added = dshift0, input_dy = dy;
    const auto expected = reference->layer_norm(desc, {});
    expected->bind(scale.data(), shift.data());
    expected->forward(on_host(x, shape), on_host(y, shape));
    expected->backward(on_host(x, shape), on_host(input_dy, shape), on_host(dx, shape), dscale.data(), dshift.data(),
                       Gradient::overwrite);
    expected->backward(on_host(x, shape), on_host(input_dy, shape), {}, dscale_added.data(), dshift_added.data(),
                       Gradient::add);

    std::map<std::string, Values> first;
    for (const int thread_count : backend.cuda() ? std::vector{1} : std::vector{1, 2, 3}) {
      const auto tested = make_ops(*device, backend, thread_count);
      const int64_t sizes[] = {c.n + 2, c.n};
      const auto norm = tested->layer_norm(desc, sizes);
      const auto ascale = on_device(scale), ashift = on_device(shift), adscale = unwritten(c.c),
                 adshift = unwritten(c.c), sum_dscale = on_device(dscale0), sum_dshift = on_device(dshift0),
                 only_dscale = unwritten(c.c), only_dshift = unwritten(c.c);
      const auto ax = filled(shape, x), ady = filled(shape, dy), ay = unwritten(shape), adx = unwritten(shape),
                 frozen_dx = unwritten(shape), in_place = filled(shape, dy);
      norm->bind(ascale.data(), ashift.data());
      norm->forward(ax.tensor(), ay.tensor());
      norm->backward(ax.tensor(), ady.tensor(), adx.tensor(), adscale.data(), adshift.data(), Gradient::overwrite);
      norm->backward(ax.tensor(), ady.tensor(), {}, sum_dscale.data(), sum_dshift.data(), Gradient::add);
      norm->backward(ax.tensor(), ady.tensor(), frozen_dx.tensor(), nullptr, nullptr, Gradient::overwrite);
      norm->backward(ax.tensor(), ady.tensor(), {}, only_dscale.data(), nullptr, Gradient::overwrite);
      norm->backward(ax.tensor(), in_place.tensor(), in_place.tensor(), nullptr, only_dshift.data(),
                     Gradient::overwrite);
      expect_activations(ay.values(), y, "y");
      expect_dx(adx.values(), dx);
      expect_within(backend.sums, adscale.values(), dscale, "dscale");
      expect_within(backend.sums, adshift.values(), dshift, "dshift");
      expect_within(backend.sums, sum_dscale.values(), dscale_added, "dscale added");
      expect_within(backend.sums, sum_dshift.values(), dshift_added, "dshift added");
      for (const auto* other : {&frozen_dx, &in_place}) expect_dx(other->values(), dx);
      EXPECT_EQ(ady.values(), dy);
      EXPECT_EQ(only_dscale.values(), adscale.values());
      EXPECT_EQ(only_dshift.values(), adshift.values());
      const std::map<std::string, Values> results = {
          {"y", ay.values()}, {"dx", adx.values()}, {"dscale", adscale.values()}, {"dshift", adshift.values()}};
      if (first.empty()) first = results;
      EXPECT_EQ(results, first) << thread_count << " threads";
    }
  }
}

}  // namespace
}  // namespace ddp::testing
