#include "app/commands/export/onnx_model.h"

#include "core/error.h"

#include <onnx/onnx.pb.h>

#include <array>
#include <bit>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using LayerKind = LayerSpec::Kind;

constexpr int64_t kIrVersion = 7, kOperatorSet = 13;

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

// The value that a layer computes. A flat one has the shape (batch, channels), another (batch, channels, h, w).
struct GraphValue {
  std::string name;
  bool flat = false;
};

class GraphBuilder {
 public:
  GraphBuilder(const ExportedNetwork& exported, onnx::GraphProto& graph) : exported_(exported), graph_(graph) {}

  void add(const std::optional<PixelScale>& bytes) {
    const Network& network = exported_.network;
    graph_.set_name(network.name());
    for (const NamedTensor& tensor : exported_.tensors)
      if (!tensor.integer) initializer(tensor.name, tensor.shape, tensor.values);
    image_ = bytes ? normalize(*bytes) : input(onnx::TensorProto::FLOAT, nchw());
    for (size_t i = 0; i < network.layers().size(); ++i) values_.push_back(value_of(i));
    const GraphValue result = flat(values_.empty() ? image_ : values_.back(), "features");
    DDP_EXPECT(graph_.node_size() > 0);  // a Flatten at least
    onnx::NodeProto& last = *graph_.mutable_node(graph_.node_size() - 1);
    DDP_EXPECT(last.output(0) == result.name);
    last.set_output(0, "logits");
    declare(*graph_.add_output(), "logits", onnx::TensorProto::FLOAT, std::array{network.output().elements()});
  }

 private:
  std::array<int64_t, 3> nchw() const {
    const ImageShape image = exported_.network.input();
    return {image.c, image.h, image.w};
  }

  static void declare(onnx::ValueInfoProto& info, const char* name, int32_t type, std::span<const int64_t> sample) {
    info.set_name(name);
    onnx::TypeProto::Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape()->add_dim()->set_dim_param("batch");
    for (const int64_t size : sample) tensor.mutable_shape()->add_dim()->set_dim_value(size);
  }

  GraphValue input(int32_t type, std::span<const int64_t> sample) {
    declare(*graph_.add_input(), "input", type, sample);
    return {"input"};
  }

  GraphValue normalize(const PixelScale& pixels) {
    const ImageShape image = exported_.network.input();
    input(onnx::TensorProto::UINT8, std::array{image.h, image.w, image.c});
    const auto for_each_channel = [&](const char* name, const std::array<float, 3>& values) {
      initializer(name, std::array{image.c, int64_t{1}, int64_t{1}},
                  std::span(values).first(static_cast<size_t>(image.c)));
    };
    for_each_channel("pixels.scale", pixels.scale);
    for_each_channel("pixels.shift", pixels.shift);
    set(node("pixels.cast", "Cast", {"input"}), "to", int64_t{onnx::TensorProto::FLOAT});
    set(node("pixels.transpose", "Transpose", {"pixels.cast.output"}), "perm", std::array<int64_t, 4>{0, 3, 1, 2});
    node("pixels.mul", "Mul", {"pixels.transpose.output", "pixels.scale"});
    node("pixels.add", "Add", {"pixels.mul.output", "pixels.shift"});
    return {"pixels.add.output"};
  }

  void initializer(const std::string& name, std::span<const int64_t> shape, std::span<const float> values) {
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const int64_t size : shape) tensor.add_dims(size);
    tensor.set_raw_data(values.data(), values.size_bytes());
  }

  // Adds a node with the output "NAME.output".
  onnx::NodeProto& node(const std::string& name, const char* op, std::initializer_list<std::string> inputs) {
    onnx::NodeProto& added = *graph_.add_node();
    added.set_name(name);
    added.set_op_type(op);
    for (const std::string& value : inputs) added.add_input(value);
    added.add_output(name + ".output");
    return added;
  }

  static onnx::AttributeProto& attribute(onnx::NodeProto& to, const char* name,
                                         onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto& added = *to.add_attribute();
    added.set_name(name);
    added.set_type(type);
    return added;
  }
  static void set(onnx::NodeProto& to, const char* name, int64_t value) {
    attribute(to, name, onnx::AttributeProto::INT).set_i(value);
  }
  static void set(onnx::NodeProto& to, const char* name, float value) {
    attribute(to, name, onnx::AttributeProto::FLOAT).set_f(value);
  }
  static void set(onnx::NodeProto& to, const char* name, std::span<const int64_t> values) {
    onnx::AttributeProto& list = attribute(to, name, onnx::AttributeProto::INTS);
    for (const int64_t value : values) list.add_ints(value);
  }
  static void set_window(onnx::NodeProto& to, const Window2d& window) {
    const auto& [top, left, bottom, right] = window.padding;
    set(to, "kernel_shape", std::array{window.kernel, window.kernel});
    set(to, "strides", std::array{window.stride, window.stride});
    set(to, "pads", std::array{top, left, bottom, right});
  }

  const GraphValue& at(int layer) const {
    return layer == LayerSpec::kImage ? image_ : values_[static_cast<size_t>(layer)];
  }

  const std::string& image(const LayerSpec& layer) const {
    const GraphValue& value = at(layer.from);
    require(!value.flat, Exit::model,
            "model {}: layer {} ({}) needs an image, but a flatten is before it; ONNX and "
            "PyTorch have no such layer",
            exported_.network.name(), layer.name, name_of(layer.kind));
    return value.name;
  }

  // Adds a Flatten with this name, unless the value is flat.
  GraphValue flat(const GraphValue& value, const std::string& name) {
    if (value.flat) return value;
    set(node(name, "Flatten", {value.name}), "axis", int64_t{1});
    return {name + ".output", true};
  }

  // The second input of a sum; a sum that is fused into a batch norm has it there.
  const GraphValue& skip(const LayerSpec& sum) const {
    const auto& layers = exported_.network.layers();
    return at(sum.skip != LayerSpec::kNone ? sum.skip : layers[static_cast<size_t>(sum.from)].skip);
  }

  // Adds the nodes of a layer. A ReLU or a sum is a layer of its own, also where our kernels fuse it.
  GraphValue value_of(size_t index) {
    const LayerSpec& l = exported_.network.layers()[index];
    const GraphValue& from = at(l.from);
    const auto tensor = [&](const char* part) { return l.name + part; };
    const GraphValue result{l.name + ".output", from.flat};
    switch (l.kind) {
      case LayerKind::conv2d: {
        onnx::NodeProto& conv = node(l.name, "Conv", {image(l), tensor(".weight")});
        if (exported_.find(tensor(".bias"))) conv.add_input(tensor(".bias"));
        set_window(conv, l.window);
        return result;
      }
      case LayerKind::linear: {
        const GraphValue features = flat(from, l.name + ".flatten");
        set(node(l.name, "Gemm", {features.name, tensor(".weight"), tensor(".bias")}), "transB", int64_t{1});
        return {result.name, true};
      }
      case LayerKind::batch_norm:
        if (exported_.folded[index]) return from;
        set(node(l.name, "BatchNormalization",
                 {from.name, tensor(".weight"), tensor(".bias"), tensor(".running_mean"), tensor(".running_var")}),
            "epsilon", l.norm.epsilon);
        return result;
      case LayerKind::activation: node(l.name, "Relu", {from.name}); return result;
      case LayerKind::pool2d: add_pool(l); return result;
      case LayerKind::flatten: return flat(from, l.name);
      case LayerKind::dropout: return from;  // none in inference
      case LayerKind::add: {
        const GraphValue& other = skip(l);
        if (from.flat == other.flat) {
          node(l.name, "Add", {from.name, other.name});
          return result;
        }
        const GraphValue a = flat(from, l.name + ".flatten"), b = flat(other, l.name + ".flatten");
        node(l.name, "Add", {a.name, b.name});
        return {result.name, true};
      }
      default: break;
    }
    return result;
  }

  void add_pool(const LayerSpec& l) {
    switch (l.pool) {
      case Pool2dDesc::Kind::average: return set_window(node(l.name, "AveragePool", {image(l)}), l.window);
      case Pool2dDesc::Kind::maximum: return set_window(node(l.name, "MaxPool", {image(l)}), l.window);
      case Pool2dDesc::Kind::global_average: node(l.name, "GlobalAveragePool", {image(l)}); return;
      case Pool2dDesc::Kind::adaptive_average: break;
    }
  }

  const ExportedNetwork& exported_;
  onnx::GraphProto& graph_;
  GraphValue image_;
  std::vector<GraphValue> values_;  // of each layer
};

}  // namespace

void require_onnx_holds(int64_t bytes) {
  require(bytes <= std::numeric_limits<int32_t>::max(), Exit::usage,
          "the ONNX file would have {:.1f} GiB, and such a file has less than 2; use --format safetensors",
          static_cast<double>(bytes) / (1 << 30));
}

std::string onnx_model(const ExportedNetwork& exported, const std::optional<PixelScale>& bytes,
                       const Metadata& metadata) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("ddp_train");
  model.set_producer_version(DDP_VERSION);
  model.add_opset_import()->set_version(kOperatorSet);
  GraphBuilder(exported, *model.mutable_graph()).add(bytes);
  for (const auto& [key, value] : metadata) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  require_onnx_holds(static_cast<int64_t>(model.ByteSizeLong()));
  return model.SerializeAsString();
}

}  // namespace ddp
