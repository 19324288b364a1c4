#include "tests/ops/layer.h"

namespace ddp::testing {
namespace {

struct LinearCase {
  int64_t n, h, w, c, out;
  bool relu = false;
  On on = On::every;
};

const LinearCase kLinearCases[] = {{8, 4, 4, 50, 128, true},
                                   {128, 1, 1, 128, 10},
                                   {17, 2, 3, 5, 7, true},
                                   {1, 1, 1, 1, 1},
                                   {5, 3, 1, 3, 23, true},
                                   {48, 1, 1, 64, 12},
                                   {20, 1, 1, 512, 10},
                                   {3, 2, 2, 16, 9, true},
                                   {33, 1, 1, 24, 6, true},
                                   {1, 1, 1, 800, 128, true},
                                   {1, 1, 1, 128, 10},
                                   {96, 1, 1, 800, 128, true, On::gpu},
                                   {256, 1, 1, 800, 128, true, On::gpu},
                                   {256, 1, 1, 128, 10, false, On::gpu},
                                   {64, 1, 1, 1024, 512, true, On::gpu}};

std::string name_of(const LinearCase& c) {
  return fmt::format("n{}_{}x{}x{}to{}{}", c.n, c.h, c.w, c.c, c.out, c.relu ? "_relu" : "");
}

class Linear : public LayerTest<LinearCase> {};
INSTANTIATE_TEST_SUITE_P(, Linear, on_each_backend(kLinearCases), kCaseName);

TEST_P(Linear, AgreesWithTheReference) {
  LinearDesc desc{.in_features = c.h * c.w * c.c, .out_features = c.out, .input_format = {}, .relu = c.relu};
  const int64_t sizes[] = {c.n, c.n + 3};
  const auto plain = reference->linear(desc, {});
  const LayerResults results = results_of(*plain, {c.n, {c.h, c.w, c.c}}, {c.n, {1, 1, c.out}},
                                          rounded(random_values(desc.in_features * c.out, 2), backend.parameters),
                                          rounded(random_values(c.out, 3), backend.parameters), true, true);
  each_setup(backend.linear_formats, {0}, [&] {
    desc.input_format = format;
    expect_agreement(*ops->linear(desc, sizes), results, format, backend.products);
  });
}

}  // namespace
}  // namespace ddp::testing
