// An input is a network file. Of an accepted network, each layer reads earlier ones, sizes are in their limits, and the
// parameters have places.
#include "nn/model_file.h"

#include "nn/parameters.h"
#include "tests/fuzz/check.h"

#include <string>

namespace ddp {
namespace {

void check_layers(const Network& network) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t outputs = 0;
  int index = 0;
  for (const LayerSpec& layer : network.layers()) {
    check(layer.from >= LayerSpec::kImage && layer.from < index, "a layer reads an earlier one");
    check(layer.skip >= LayerSpec::kNone && layer.skip < index, "a layer skips from an earlier one");
    check(layer.tied == LayerSpec::kNone || network.layers().at(layer.tied).kind == LayerSpec::Kind::embedding,
          "a layer is tied to an embedding");
    const auto& [h, w, c] = layer.output;
    check(h > 0 && w > 0 && c > 0 && h <= kMost && w <= kMost / h && c <= kMost / (h * w), "a shape is in its limits");
    outputs += layer.output.elements();
    ++index;
  }
  check(index > 0 && index <= kMostModelLayers && outputs <= kMost, "a network is in its limits");
}

void read_network(const std::string& text, ImageShape input) {
  const Network network = make_model({.name = "net", .text = text}, "net.toml", input, 10);
  check_layers(network);
  check_layers(network.trimmed());
  check(flat_count(parameters_of(network)) > 0, "a network has parameters");
}

}  // namespace
}  // namespace ddp

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  ddp::read_or_refuse(ddp::Exit::model, [&] { ddp::read_network(text, {32, 32, 3}); });
  ddp::read_or_refuse(ddp::Exit::model, [&] { ddp::read_network(text, {16, 1, 1}); });
  return 0;
}
