#include "nn/model_file/sizes.h"

#include "core/error.h"

#include <algorithm>
#include <initializer_list>

namespace ddp {
namespace {

// Of positive factors; a product above the limit is the limit + 1.
int64_t bounded_product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (factor > kMostModelElements / product) return kMostModelElements + 1;
    product *= factor;
  }
  return product;
}

int64_t bounded_elements(const ImageShape& shape) { return bounded_product({shape.h, shape.w, shape.c}); }

int64_t bounded_parameters(const LayerSpec& layer) {
  using enum LayerSpec::Kind;
  const int64_t out = layer.output.c, bias = layer.bias ? out : 0;
  switch (layer.kind) {
    case conv2d:
      return bounded_product({layer.window.kernel, layer.window.kernel, layer.input.c / layer.groups, out}) + bias;
    case linear:
      return layer.tied == LayerSpec::kNone ? bounded_product({bounded_elements(layer.flattened), out}) + bias : 0;
    case batch_norm:
    case layer_norm:
    case group_norm: return 2 * out;
    case layer_scale:
    case class_token: return out;
    case embedding: return bounded_product({layer.rows, out});
    case position_embedding:
      return layer.rows > 0 ? bounded_product({layer.rows, out}) : bounded_elements(layer.output);
    default: return 0;
  }
}

}  // namespace

ModelSizes::ModelSizes(ImageShape image) {
  require(bounded_elements(image) <= kMostModelElements, Exit::model, "the images have more than {} values",
          kMostModelElements);
}

void ModelSizes::add(const LayerSpec& layer) {
  const auto& [h, w, c] = layer.output;
  outputs_ += bounded_elements(layer.output);
  require(outputs_ <= kMostModelElements, Exit::model,
          "layer {} ({}) gives {}x{}x{}, and with it the network has more than {} values for one image, the limit",
          layer.name, name_of(layer.kind), h, w, c, kMostModelElements);
  parameters_ += bounded_parameters(layer);
  require(parameters_ <= kMostModelElements, Exit::model,
          "layer {} ({}), which gives {}x{}x{} from {}x{}x{}: with it, the network has more than {} parameters, the "
          "limit",
          layer.name, name_of(layer.kind), h, w, c, layer.input.h, layer.input.w, layer.input.c, kMostModelElements);
}

}  // namespace ddp
