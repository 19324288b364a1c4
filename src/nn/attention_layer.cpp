#include "nn/layer.h"

#include <utility>

namespace ddp {
namespace {

class AttentionLayer final : public Layer {
 public:
  explicit AttentionLayer(std::unique_ptr<Attention> op) : op_(std::move(op)) {}

  Format output_format() const override { return {}; }
  bool saves_input() const override { return true; }
  bool saves_output() const override { return true; }
  void forward(const LayerValues& v, const Pass&) override { op_->forward(v.x, v.y); }
  void backward(const LayerValues& v, const LayerGradients& g, const Pass&) override {
    if (g.dx.data) op_->backward(v.x, v.y, g.dy, g.dx);
  }

 private:
  std::unique_ptr<Attention> op_;
};

}  // namespace

std::unique_ptr<Layer> make_attention_layer(const LayerSpec& spec, const LayerContext& context) {
  const AttentionDesc desc{.tokens = spec.output.h * spec.output.w,
                           .width = spec.output.c,
                           .heads = spec.heads,
                           .causal = spec.causal,
                           .gradients = !context.config.inference};
  return std::make_unique<AttentionLayer>(context.ops.attention(desc, context.batch_sizes));
}

}  // namespace ddp
