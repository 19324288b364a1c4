#include "tests/ops/backend.h"

#include <map>

namespace ddp::testing {
namespace {

struct ScaleCase {
  int64_t n, h, w, c;
  On on = On::every;
};

const ScaleCase kScaleCases[] = {{1, 1, 1, 1},   {2, 1, 1, 10},   {17, 3, 5, 35}, {5, 9, 7, 16},
                                 {3, 20, 20, 9}, {33, 2, 2, 144}, {7, 1, 1, 300}, {4, 40, 40, 24, On::cuda}};

std::string name_of(const ScaleCase& c) { return fmt::format("n{}_{}x{}x{}", c.n, c.h, c.w, c.c); }

class Scale : public CaseTest<ScaleCase> {
 protected:
  // Threads change no bit.
  void expect_same_bits(const Values& sums) {
    const std::string key = fmt::format("{} {}", text_of(format), before);
    const auto found = bits_.emplace(key, sums).first;
    EXPECT_EQ(sums, found->second) << "with " << threads << " threads";
  }

  const Shape shape{c.n, {c.h, c.w, c.c}};
  const double rounding = type == DType::bf16 ? 0x1p-8 : backend.sums * 10;  // of a stored sum

 private:
  std::map<std::string, Values> bits_;
};
INSTANTIATE_TEST_SUITE_P(, Scale, on_each_backend(kScaleCases), kCaseName);

TEST_P(Scale, GateAgreesWithTheReference) {
  const Shape gates{c.n, {1, 1, c.c}};
  Values x = random(shape.elements(), 1), s = random(gates.elements(), 2), dy = random(shape.elements(), 3);
  Values y(x.size()), dx(x.size()), ds(s.size());
  reference->gate(on_host(x, shape), on_host(s, gates), on_host(y, shape));
  reference->gate_backward(on_host(x, shape), on_host(s, gates), on_host(dy, shape), on_host(dx, shape),
                           on_host(ds, gates));
  each_setup(backend.formats, backend.offsets, [&] {
    const float lanes = format.kind == Format::Kind::batch_interleaved ? 3 : 0;  // activations past n are finite
    const auto ax = filled(shape, x, lanes), as = filled(gates, s, lanes), ady = filled(shape, dy),
               ay = unwritten(shape), adx = unwritten(shape), ads = unwritten(gates), none = unwritten(shape);
    ops->gate(ax.tensor(), as.tensor(), ay.tensor());
    expect_activations(ay.values(), y, "y");
    expect_finite(ay.loaded().padding, "y");
    ops->gate_backward(ax.tensor(), as.tensor(), ady.tensor(), adx.tensor(), ads.tensor());
    expect_activations(adx.values(), dx, "dx");
    expect_zero(adx.loaded().padding, "dx");
    expect_within(rounding, ads.values(), ds, "ds");
    expect_zero(ads.loaded().padding, "ds");
    expect_same_bits(ads.values());

    const auto alone_dx = unwritten(shape), alone_ds = unwritten(gates);
    ops->gate_backward(ax.tensor(), as.tensor(), ady.tensor(), {}, alone_ds.tensor());
    EXPECT_EQ(alone_ds.values(), ads.values());
    ops->gate_backward(ax.tensor(), as.tensor(), ady.tensor(), alone_dx.tensor(), {});
    EXPECT_EQ(alone_dx.values(), adx.values());
    ops->gate_backward(ax.tensor(), as.tensor(), ady.tensor(), ady.tensor(), {});
    EXPECT_EQ(ady.values(), adx.values()) << "in place";
    ops->gate(ax.tensor(), as.tensor(), ax.tensor());
    EXPECT_EQ(ax.values(), ay.values()) << "in place";
  });
}

TEST_P(Scale, ChannelsAgreeWithTheReference) {
  Values x = random(shape.elements(), 1), dy = random(shape.elements(), 3);
  const Values scale = random_values(c.c, 2), shift = random_values(c.c, 4), given = random_values(c.c, 5);
  Values scaled(x.size()), shifted(x.size()), dx(x.size()), dscale(c.c), added = given;
  reference->scale_channels(on_host(x, shape), scale.data(), nullptr, on_host(scaled, shape));
  reference->scale_channels(on_host(x, shape), nullptr, shift.data(), on_host(shifted, shape));
  reference->scale_channels_backward(on_host(x, shape), scale.data(), on_host(dy, shape), on_host(dx, shape),
                                     dscale.data(), Gradient::overwrite);
  reference->scale_channels_backward(on_host(x, shape), scale.data(), on_host(dy, shape), {}, added.data(),
                                     Gradient::add);
  each_setup(backend.formats, backend.offsets, [&] {
    const float lanes = format.kind == Format::Kind::batch_interleaved ? 3 : 0;
    const auto ax = filled(shape, x, lanes), ady = filled(shape, dy), ay = unwritten(shape), az = unwritten(shape),
               adx = unwritten(shape);
    const auto ascale = on_device(scale), ashift = on_device(shift), to = unwritten(c.c), sum = on_device(given);
    ops->scale_channels(ax.tensor(), ascale.data(), nullptr, ay.tensor());
    expect_activations(ay.values(), scaled, "y");
    expect_finite(ay.loaded().padding, "y");
    ops->scale_channels(ax.tensor(), nullptr, ashift.data(), az.tensor());
    expect_activations(az.values(), shifted, "shifted y");
    ops->scale_channels_backward(ax.tensor(), ascale.data(), ady.tensor(), adx.tensor(), to.data(),
                                 Gradient::overwrite);
    expect_activations(adx.values(), dx, "dx");
    expect_zero(adx.loaded().padding, "dx");
    expect_within(backend.sums * 10, to.values(), dscale, "dscale");
    expect_same_bits(to.values());
    ops->scale_channels_backward(ax.tensor(), ascale.data(), ady.tensor(), {}, sum.data(), Gradient::add);
    expect_within(backend.sums * 10, sum.values(), added, "dscale added");
    ops->scale_channels_backward({}, ascale.data(), ady.tensor(), ady.tensor(), nullptr, Gradient::overwrite);
    EXPECT_EQ(ady.values(), adx.values()) << "frozen, in place";
  });
}

}  // namespace
}  // namespace ddp::testing
