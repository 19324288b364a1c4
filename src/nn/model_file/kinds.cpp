#include "nn/model_file/kinds.h"

#include "nn/parameters.h"

#include <fmt/format.h>

#include <ranges>
#include <string>

namespace ddp {
namespace {

// Of the layer added last.
void set_init(Network& net, const ModelEntry& entry) {
  const Fans fans = fans_of(net.layers().back());
  if (!net.layers().back().bias && entry.table().contains("bias_init"))
    entry.fail_at("bias_init", "bias_init is for a layer with a bias; leave it out");
  net.initialized(entry.init("init", fans), entry.init("bias_init", fans));
}

void add_conv2d(Network& net, const ModelEntry& entry) {
  ConvOptions options{.stride = entry.whole_or("stride", 1),
                      .bias = entry.flag_or("bias", true),
                      .groups = entry.whole_or("groups", 1),
                      .dilation = entry.whole_or("dilation", 1)};
  const toml::node* const padding = entry.find("padding");
  options.same = padding && padding->value_exact<std::string>() == "same";
  if (!options.same) options.padding = entry.whole_or("padding", 0, 0);
  const int64_t channels = entry.whole("conv2d");
  net.conv2d(channels, entry.whole("kernel"), options);
  set_init(net, entry);
}

// Of an embedding that is the layer added last: it keeps its own rule without the key.
void set_table_init(Network& net, const ModelEntry& entry) {
  if (entry.has("init")) net.initialized(entry.init("init", {}), {});
}

void add_linear(Network& net, const ModelEntry& entry) {
  const int64_t features = entry.whole("linear");
  if (!entry.has("tied")) {
    net.linear(features, entry.flag_or("bias", true));
    set_init(net, entry);
    if (entry.flag_or("transposed", false)) net.transposed();
    return;
  }
  for (const char* const key : {"bias", "init", "bias_init", "transposed"})
    if (entry.table().contains(key)) entry.fail_at(key, fmt::format("{} is for a layer with its own weight", key));
  net.tied_linear(entry.value("tied"));
  if (net.output().c != features)
    entry.fail_at("linear", fmt::format("linear = {} must be {}, the rows of the embedding", features, net.output().c));
}

float epsilon_of(const ModelEntry& entry) {
  const float epsilon = entry.decimal_or("epsilon", 1e-5f);
  if (!(epsilon > 0)) entry.fail_at("epsilon", "epsilon must be greater than 0");
  return epsilon;
}

void add_batch_norm(Network& net, const ModelEntry& entry) {
  entry.require_true();
  BatchNormOptions options;
  options.epsilon = epsilon_of(entry);
  options.momentum = entry.decimal_or("momentum", options.momentum);
  if (!(options.momentum >= 0 && options.momentum <= 1))
    entry.fail_at("momentum", "momentum must be from 0 to 1: it is the weight of the batch in the running statistics");
  options.scale = entry.flag_or("scale", options.scale);
  options.unbiased = entry.flag_or("unbiased", options.unbiased);
  net.batch_norm(options);
}

void add_activation(Network& net, const ModelEntry& entry) {
  Activation activation{.kind = entry.activation("activation")};
  if (entry.table().contains("slope") && activation.kind != Activation::Kind::leaky_relu)
    entry.fail_at("slope", "slope is for activation = \"leaky_relu\" only");
  activation.slope = entry.decimal_or("slope", activation.slope);
  net.activation(activation);
}

void add_max_pool2d(Network& net, const ModelEntry& entry) {
  const int64_t kernel = entry.whole("max_pool2d");
  net.max_pool2d(kernel, entry.whole_or("stride", kernel), entry.whole_or("padding", 0, 0));
}

void add_adaptive_avg_pool2d(Network& net, const ModelEntry& entry) {
  const std::string_view key = "adaptive_avg_pool2d";
  const toml::array* const both = entry.find(key)->as_array();
  if (!both) {
    const int64_t size = entry.whole(key);
    net.adaptive_avg_pool(size, size);
    return;
  }
  if (both->size() != 2) entry.fail_at(key, fmt::format("{} must be a number, or [height, width]", key));
  net.adaptive_avg_pool(entry.whole_in(key, (*both)[0]), entry.whole_in(key, (*both)[1]));
}

// [x, y]: the concatenation of y and the output before, then of x and that.
void add_concat(Network& net, const ModelEntry& entry) {
  constexpr size_t kMostValues = 64;
  std::vector<int> values;
  for (const std::string& label : entry.texts("concat")) values.push_back(entry.value("concat", label));
  if (values.size() > kMostValues) entry.fail_at("concat", fmt::format("concat has more than {} values", kMostValues));
  if (values.size() == 1) {
    net.concat(values.front());
    return;
  }
  net.block([&](Network& nested) {
    for (const int value : values | std::views::reverse) nested.concat(value);
  });
}

// Adds a layer that has no options, by a call of the builder.
template <Network& (Network::*call)()>
void add_plain(Network& net, const ModelEntry& entry) {
  entry.require_true();
  (net.*call)();
}

}  // namespace

std::span<const ModelKind> model_kinds() {
  static const std::vector<ModelKind> kKinds = {
      {"conv2d", {"kernel", "stride", "padding", "dilation", "groups", "bias", "init", "bias_init"}, add_conv2d},
      {"linear", {"bias", "init", "bias_init", "tied", "transposed"}, add_linear},
      {"batch_norm", {"epsilon", "momentum", "scale", "unbiased"}, add_batch_norm},
      {"layer_norm",
       {"epsilon"},
       [](Network& net, const ModelEntry& entry) {
         entry.require_true();
         net.layer_norm(epsilon_of(entry));
       }},
      {"group_norm",
       {"epsilon"},
       [](Network& net, const ModelEntry& entry) { net.group_norm(entry.whole("group_norm"), epsilon_of(entry)); }},
      {"activation", {"slope"}, add_activation},
      {"max_pool2d", {"stride", "padding"}, add_max_pool2d},
      {"avg_pool2d", {}, [](Network& net, const ModelEntry& entry) { net.avg_pool2d(entry.whole("avg_pool2d")); }},
      {"global_avg_pool", {}, add_plain<&Network::global_avg_pool>},
      {"adaptive_avg_pool2d", {}, add_adaptive_avg_pool2d},
      {"flatten", {}, add_plain<&Network::flatten>},
      {"tokens", {}, add_plain<&Network::tokens>},
      {"class_token", {}, add_plain<&Network::class_token>},
      {"embedding",
       {"rows", "init"},
       [](Network& net, const ModelEntry& entry) {
         net.embedding(entry.whole("embedding"), entry.whole("rows"));
         set_table_init(net, entry);
       }},
      {"position_embedding",
       {"init"},
       [](Network& net, const ModelEntry& entry) {
         const bool is_flag = entry.find("position_embedding")->is_boolean();
         if (is_flag) entry.require_true();
         net.position_embedding(is_flag ? 0 : entry.whole("position_embedding"));
         set_table_init(net, entry);
       }},
      {"first_token", {}, add_plain<&Network::first_token>},
      {"dropout", {}, [](Network& net, const ModelEntry& entry) { net.dropout(entry.decimal("dropout")); }},
      {"stochastic_depth",
       {},
       [](Network& net, const ModelEntry& entry) { net.stochastic_depth(entry.decimal("stochastic_depth")); }},
      {"layer_scale", {}, [](Network& net, const ModelEntry& entry) { net.layer_scale(entry.decimal("layer_scale")); }},
      {"attention",
       {"causal"},
       [](Network& net, const ModelEntry& entry) {
         net.attention(entry.whole("attention"), entry.flag_or("causal", false));
       }},
      {"scaled_dot_product_attention",
       {"causal"},
       [](Network& net, const ModelEntry& entry) {
         net.scaled_dot_product_attention(entry.whole("scaled_dot_product_attention"), entry.flag_or("causal", false));
       }},
      {"add", {}, [](Network& net, const ModelEntry& entry) { net.add(entry.value("add")); }},
      {"concat", {}, add_concat},
      {"gate", {}, [](Network& net, const ModelEntry& entry) { net.gate(entry.value("gate")); }},
  };
  return kKinds;
}

}  // namespace ddp
