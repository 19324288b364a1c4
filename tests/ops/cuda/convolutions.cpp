#include "tests/ops/cuda/convolutions.h"

#include "core/error.h"
#include "nn/layer.h"
#include "nn/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>

namespace ddp::cudnn::testing {

std::vector<Convolution> convolutions_of(const Network& model) {
  std::vector<Convolution> found;
  const Network trimmed = model.trimmed();
  for (const LayerSpec& layer : trimmed.layers()) {
    if (layer.kind != LayerSpec::Kind::conv2d) continue;
    Conv2dDesc desc = conv2d_desc(layer, layer.from != LayerSpec::kImage, {}, model.prefers_dense());
    desc.bias = desc.bias || desc.relu;  // as in the op
    const auto& [kernel, stride, padding, dilation] = desc.window;
    const std::string name =
        fmt::format("{} {}x{}x{} to {} g{} k{} s{} d{} p{},{},{},{}{}{}", model.name(), desc.input.h, desc.input.w,
                    desc.input.c, desc.out_channels, desc.groups, kernel, stride, dilation, padding.top, padding.left,
                    padding.bottom, padding.right, desc.bias ? " bias" : "", desc.relu ? " relu" : "");
    if (std::ranges::none_of(found, [&](const Convolution& other) { return other.name == name; }))
      found.push_back({name, desc});
  }
  return found;
}

std::vector<Convolution> convolutions_of(const std::string& model) {
  constexpr std::string_view kGrey[] = {"keras-convnet", "lenet", "mlp", "resnet18"};
  if (std::ranges::find(kGrey, model) != std::end(kGrey)) return convolutions_of(make_model(model, {28, 28, 1}, 10));
  return convolutions_of(model == "vit-tiny" ? make_model(model, {32, 32, 3}, 10)
                                             : make_model(model, {224, 224, 3}, 1000));
}

Target described_gpu(const std::string& name) {
  const std::string path = DDP_GPUS "/" + name;
  std::ifstream file(path);
  require(file.is_open(), Exit::data, "cannot read {}", path);
  return Target(std::string(std::istreambuf_iterator<char>(file), {}));
}

Target h200() { return described_gpu("h200.json"); }

}  // namespace ddp::cudnn::testing
