#include "nn/simple_layer.h"

namespace ddp {
namespace {

class ConcatLayer : public SimpleLayer {
 public:
  using SimpleLayer::SimpleLayer;
  bool separates_skip() const override { return true; }

  void forward(const LayerValues& v, const Pass&) override {
    const int64_t a = v.x.shape.image.c;
    ops_.copy_channels(v.x, 0, v.y, 0, a);
    ops_.copy_channels(v.skip, 0, v.y, a, v.skip.shape.image.c);
  }
  void backward(const LayerValues& v, const LayerGradients& g, const Pass&) override {
    const int64_t a = v.x.shape.image.c;
    if (g.dx.data) ops_.copy_channels(g.dy, 0, g.dx, 0, a);
    if (g.dskip.data) ops_.copy_channels(g.dy, a, g.dskip, 0, v.skip.shape.image.c);
  }
};

class GateLayer : public SimpleLayer {
 public:
  using SimpleLayer::SimpleLayer;
  bool saves_input() const override { return true; }
  bool separates_skip() const override { return true; }

  void forward(const LayerValues& v, const Pass&) override { ops_.gate(v.x, v.skip, v.y); }
  void backward(const LayerValues& v, const LayerGradients& g, const Pass&) override {
    ops_.gate_backward(v.x, v.skip, g.dy, g.dx, g.dskip);
  }
};

}  // namespace

std::unique_ptr<Layer> make_join_layer(const LayerSpec& spec, Format format, const LayerContext& context) {
  if (spec.kind == LayerSpec::Kind::concat) return std::make_unique<ConcatLayer>(context.ops, format);
  return std::make_unique<GateLayer>(context.ops, format);
}

}  // namespace ddp
