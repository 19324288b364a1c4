// The reference's results of an op with weights (convolution or linear layer), for inputs rounded to `dtype`.
#pragma once

#include "tests/ops/fixture.h"

#include <utility>

namespace ddp::testing {

struct Expected {
  // `reference` is the reference op, over dense tensors.
  template <class Op>
  Expected(Device& device, Op& reference, Shape in_, Shape out_, Values weights, bool bias, DType dtype)
      : in(in_),
        out(out_),
        x(rounded(random_values(in.elements(), 1), dtype)),
        w(std::move(weights)),
        b(random_values(out.image.c, 3)),
        dy(rounded(random_values(out.elements(), 4), dtype)),
        dw(w.size()),
        db(b.size()) {
    Owned rx(device, in, {}, x), ry(out, {}), rdy(device, out, {}, dy), rdx(in, {});
    reference.bind(w.data(), bias ? b.data() : nullptr);
    reference.forward(rx.tensor(), ry.tensor());
    reference.backward_weight(rx.tensor(), ry.tensor(), rdy.tensor(), dw.data(), bias ? db.data() : nullptr,
                              Gradient::overwrite);
    reference.backward_input(rdy.tensor(), rdx.tensor());
    y = ry.memory;
    masked = rdy.memory;
    dx = rdx.memory;
  }

  Shape in, out;
  Values x, w, b, dy, dw, db, y, masked, dx;
};

}  // namespace ddp::testing
