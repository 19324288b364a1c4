#include "app/commands/show_model/network_boxes.h"

#include "nn/flops.h"
#include "nn/layer.h"
#include "nn/layer_text.h"
#include "nn/parameters.h"
#include "report/text.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using Colour = report::LayerBox::Colour;

Colour colour_of(LayerSpec::Kind kind) {
  using enum LayerSpec::Kind;
  switch (kind) {
    case conv2d: return Colour::convolution;
    case linear: return Colour::linear;
    case batch_norm:
    case layer_norm:
    case group_norm: return Colour::norm;
    case pool2d: return Colour::pool;
    case attention: return Colour::attention;
    case add:
    case concat:
    case gate: return Colour::join;
    default: return Colour::other;
  }
}

std::string shape_text(const ImageShape& image) {
  if (image.h == 1 && image.w == 1) return report::number(static_cast<double>(image.c));
  return fmt::format("{} x {} x {}", image.h, image.w, image.c);
}

}  // namespace

report::NetworkDrawing drawing_of(const Network& network) {
  const std::vector<Parameter> parameters = parameters_of(network);
  std::vector<int64_t> counts(network.layers().size());
  for (const Parameter& p : parameters) counts[static_cast<size_t>(p.layer)] += p.count;
  report::NetworkDrawing drawing{
      .title = network.name(),
      .subtitle = fmt::format("{} parameters, {:.4g} GFLOP forward for {}",
                              report::number(static_cast<double>(total_count(parameters))),
                              forward_flops(network) / 1e9, network.reads_tokens() ? "a sequence" : "an image"),
      .input_shape =
          network.reads_tokens() ? report::number(static_cast<double>(network.input().h)) : shape_text(network.input()),
      .boxes = {},
      .input_name = network.reads_tokens() ? "tokens" : "image"};
  std::vector<int> box_of;  // by layer
  const auto box_at = [&](int layer) { return layer < 0 ? LayerSpec::kImage : box_of[static_cast<size_t>(layer)]; };
  for (size_t i = 0; i < network.layers().size(); ++i) {
    const LayerSpec& layer = network.layers()[i];
    const int by = computed_by(network, static_cast<int>(i));
    if (layer.view && by >= 0) {
      report::LayerBox& box = drawing.boxes[static_cast<size_t>(box_at(by))];
      box.what += " + " + describe(layer);
      box.output = shape_text(layer.output);
      box_of.push_back(box_at(by));
      continue;
    }
    box_of.push_back(static_cast<int>(drawing.boxes.size()));
    std::vector<int> inputs{box_at(layer.from)};
    if (layer.skip != LayerSpec::kNone) inputs.push_back(box_at(layer.skip));
    drawing.boxes.push_back({.name = layer.name,
                             .what = describe(layer),
                             .output = shape_text(layer.output),
                             .size = counts[i] == 0 ? "" : report::number(static_cast<double>(counts[i])),
                             .colour = colour_of(layer.kind),
                             .inputs = std::move(inputs)});
  }
  return drawing;
}

}  // namespace ddp
