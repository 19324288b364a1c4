#include "nn/layer_text.h"

#include "nn/layer.h"

#include <fmt/format.h>

namespace ddp {
namespace {

using Kind = LayerSpec::Kind;

std::string text_of_padding(const Padding& padding) {
  const auto& [top, left, bottom, right] = padding;
  if (padding.none()) return "";
  if (padding == Padding(top)) return fmt::format(", padding {}", top);
  return fmt::format(", padding {} {} {} {}", top, left, bottom, right);
}

std::string text_of_window(const Window2d& window) {
  return fmt::format(
      "{0} x {0}{1}{2}{3}", window.kernel, window.stride == 1 ? "" : fmt::format(", stride {}", window.stride),
      text_of_padding(window.padding), window.dilation == 1 ? "" : fmt::format(", dilation {}", window.dilation));
}

std::string text_of_pool(const LayerSpec& layer) {
  switch (layer.pool) {
    case Pool2dDesc::Kind::average: return "avg_pool2d " + text_of_window(layer.window);
    case Pool2dDesc::Kind::maximum: return "max_pool2d " + text_of_window(layer.window);
    case Pool2dDesc::Kind::global_average: return "global_avg_pool";
    case Pool2dDesc::Kind::adaptive_average:
      return fmt::format("adaptive_avg_pool2d {} x {}", layer.output.h, layer.output.w);
  }
  return name_of(layer.kind);
}

}  // namespace

std::string describe(const LayerSpec& layer) {
  const std::string kind = name_of(layer.kind);
  const char* const bias = layer.bias ? "" : ", no bias";
  switch (layer.kind) {
    case Kind::conv2d:
      return fmt::format("{} {}, {}{}{}", kind, layer.output.c, text_of_window(layer.window),
                         layer.groups == 1 ? "" : fmt::format(", groups {}", layer.groups), bias);
    case Kind::linear:
      return fmt::format("{} {}{}{}", kind, layer.output.c, bias, layer.tied == LayerSpec::kNone ? "" : ", tied");
    case Kind::embedding: return fmt::format("{} {} x {}", kind, layer.rows, layer.output.c);
    case Kind::position_embedding:
      return layer.rows > 0 ? fmt::format("{} {} x {}", kind, layer.rows, layer.output.c) : kind;
    case Kind::group_norm: return fmt::format("{} {}", kind, layer.groups);
    case Kind::activation: return name_of(layer.activation.kind);
    case Kind::pool2d: return text_of_pool(layer);
    case Kind::dropout:
    case Kind::stochastic_depth: return fmt::format("{} {:g}", kind, layer.rate);
    case Kind::layer_scale: return fmt::format("{} {:g}", kind, layer.initial);
    case Kind::attention: return fmt::format("{} of {} heads{}", kind, layer.heads, layer.causal ? ", causal" : "");
    default: return kind;
  }
}

int computed_by(const Network& network, int index) {
  const auto& layers = network.layers();
  while (index >= 0 && layers[static_cast<size_t>(index)].view) index = layers[static_cast<size_t>(index)].from;
  return index;
}

std::string describe_fusion(const Network& network, int index) {
  const LayerSpec& layer = network.layers().at(static_cast<size_t>(index));
  if (!layer.view) return "";
  if (is_reshape(layer) || layer.kind == LayerSpec::Kind::pool2d) return "no copy";
  const int by = computed_by(network, index);
  return by < 0 ? "into the image" : "into " + network.layers()[static_cast<size_t>(by)].name;
}

}  // namespace ddp
