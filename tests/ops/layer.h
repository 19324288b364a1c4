// Convolutions and linear layers have the same calls, so they have the same test.
#pragma once

#include "tests/ops/backend.h"

#include <algorithm>
#include <cmath>

namespace ddp::testing {

// What the reference gives for one op.
struct LayerResults {
  Shape in, out;
  Values x, w, b, dy, y, masked_dy, dw, db, dx;
  bool bias, bias_gradient;
};

template <class Case>
class LayerTest : public CaseTest<Case> {
 protected:
  // `plain` is the reference op. `w` and `b` are rounded as the tested op rounds them.
  template <class Op>
  LayerResults results_of(Op& plain, const Shape& in, const Shape& out, const Values& w, const Values& b, bool bias,
                          bool bias_gradient) const {
    LayerResults r{.in = in,
                   .out = out,
                   .x = this->random(in.elements(), 1),
                   .w = w,
                   .b = b,
                   .dy = this->random(out.elements(), 4),
                   .y = Values(out.elements()),
                   .masked_dy = {},
                   .dw = Values(w.size()),
                   .db = Values(b.size()),
                   .dx = Values(in.elements()),
                   .bias = bias,
                   .bias_gradient = bias_gradient};
    r.masked_dy = r.dy;
    plain.bind({r.w.data()}, {bias ? r.b.data() : nullptr});
    plain.forward(on_host(r.x, in), on_host(r.y, out));
    plain.backward_weight(on_host(r.x, in), on_host(r.y, out), on_host(r.masked_dy, out), r.dw.data(),
                          bias_gradient ? r.db.data() : nullptr, Gradient::overwrite);
    plain.backward_input(on_host(r.masked_dy, out), on_host(r.dx, in));
    return r;
  }

  template <class Op>
  void expect_agreement(Op& op, const LayerResults& r, Format from, const ConvBounds& bounds) const {
    const auto tensor = [&](const Shape& shape, Format layout, const Values& values) {
      return TensorOnDevice(*this->device, shape, layout, this->type, values);
    };
    const auto unwritten = [&](const Shape& shape, Format layout) {
      return TensorOnDevice(*this->device, shape, layout, this->type);
    };
    const Format to = op.output_format();
    const Values dw0 = random_values(std::ssize(r.w), 5), db0 = random_values(std::ssize(r.b), 6);
    const WeightsOnDevice w(*this->device, r.w), b(*this->device, r.b);
    const auto dw = this->unwritten(std::ssize(r.w)), db = this->unwritten(std::ssize(r.b)),
               sum_dw = this->on_device(dw0), sum_db = this->on_device(db0);
    const auto x = tensor(r.in, from, r.x), dy = tensor(r.out, to, r.dy), y = unwritten(r.out, to),
               dx = unwritten(r.in, from);
    op.bind(w.data(), r.bias ? b.data() : WeightData{});
    op.forward(x.tensor(), y.tensor());
    const auto actual_y = y.loaded();
    this->expect_within(bounds.activations, actual_y.dense, r.y, "y");
    this->expect_finite(actual_y.padding, "y");

    // Rounding decides the sign of a y near 0, so the gradients use the reference's y.
    const auto given_y = tensor(r.out, to, r.y);
    op.backward_weight(x.tensor(), given_y.tensor(), dy.tensor(), dw.data(), r.bias_gradient ? db.data() : nullptr,
                       Gradient::overwrite);
    op.backward_input(dy.tensor(), dx.tensor());
    EXPECT_EQ(dy.values(), r.masked_dy) << "dy, masked where there is a ReLU";
    const auto summands = static_cast<double>(r.out.elements() / r.out.image.c);
    const double weights = this->backend.weights + this->backend.weights_per_root * std::sqrt(summands);
    this->expect_within(std::max(weights, bounds.weights), dw.values(), r.dw, "dweight");
    if (r.bias_gradient) this->expect_within(weights, db.values(), r.db, "dbias");
    const auto actual_dx = dx.loaded();
    this->expect_within(bounds.activations, actual_dx.dense, r.dx, "dx");
    this->expect_zero(actual_dx.padding, "dx");

    op.backward_weight(x.tensor(), given_y.tensor(), dy.tensor(), sum_dw.data(),
                       r.bias_gradient ? sum_db.data() : nullptr, Gradient::add);
    Values wanted_dw = r.dw, wanted_db = r.db;
    for (size_t i = 0; i < wanted_dw.size(); ++i) wanted_dw[i] += dw0[i];
    for (size_t i = 0; i < wanted_db.size(); ++i) wanted_db[i] += db0[i];
    this->expect_within(std::max(weights, bounds.weights), sum_dw.values(), wanted_dw, "dweight added");
    if (r.bias_gradient) this->expect_within(weights, sum_db.values(), wanted_db, "dbias added");
  }
};

}  // namespace ddp::testing
