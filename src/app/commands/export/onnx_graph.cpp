#include "app/commands/export/onnx_graph.h"

#include "core/error.h"

#include <bit>

namespace ddp {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

void declare(onnx::ValueInfoProto& info, const char* name, int32_t type, std::span<const int64_t> sample) {
  info.set_name(name);
  onnx::TypeProto::Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape()->add_dim()->set_dim_param("batch");
  for (const int64_t size : sample) {
    auto& dim = *tensor.mutable_shape()->add_dim();
    if (size == OnnxGraph::kFree)
      dim.set_dim_param("sequence");
    else
      dim.set_dim_value(size);
  }
}

template <class T>
void fill(onnx::TensorProto& tensor, int32_t type, std::span<const int64_t> shape, std::span<const T> values) {
  tensor.set_data_type(type);
  for (const int64_t size : shape) tensor.add_dims(size);
  tensor.set_raw_data(values.data(), values.size_bytes());
}

onnx::AttributeProto& attribute(onnx::NodeProto& to, const char* name, onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& added = *to.add_attribute();
  added.set_name(name);
  added.set_type(type);
  return added;
}

onnx::TensorProto& value_of(onnx::NodeProto& constant) {
  return *attribute(constant, "value", onnx::AttributeProto::TENSOR).mutable_t();
}

}  // namespace

void OnnxGraph::input(const char* name, int32_t type, std::span<const int64_t> sample) {
  declare(*graph_.add_input(), name, type, sample);
}

void OnnxGraph::output(const char* name, int32_t type, std::span<const int64_t> sample) {
  declare(*graph_.add_output(), name, type, sample);
}

void OnnxGraph::initializer(const std::string& name, std::span<const int64_t> shape, std::span<const float> values) {
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(name);
  fill(tensor, onnx::TensorProto::FLOAT, shape, values);
}

onnx::NodeProto& OnnxGraph::node(const std::string& name, const char* op, std::initializer_list<std::string> inputs) {
  onnx::NodeProto& added = *graph_.add_node();
  added.set_name(name);
  added.set_op_type(op);
  for (const std::string& value : inputs) added.add_input(value);
  added.add_output(name + ".output");
  return added;
}

std::string OnnxGraph::transpose(const std::string& name, const std::string& value,
                                 std::initializer_list<int64_t> perm) {
  onnx::NodeProto& added = node(name, "Transpose", {value});
  set(added, "perm", std::span(perm.begin(), perm.size()));
  return added.output(0);
}

std::string OnnxGraph::reshape(const std::string& name, const std::string& value,
                               std::initializer_list<int64_t> shape) {
  const std::string to = constant(name + ".shape", std::span(shape.begin(), shape.size()));
  return add(name, "Reshape", {value, to});
}

std::string OnnxGraph::constant(const std::string& name, float value) { return constant(name, {}, {&value, 1}); }

std::string OnnxGraph::constant(const std::string& name, std::span<const int64_t> shape,
                                std::span<const float> values) {
  onnx::NodeProto& added = node(name, "Constant", {});
  fill(value_of(added), onnx::TensorProto::FLOAT, shape, values);
  return added.output(0);
}

std::string OnnxGraph::constant(const std::string& name, std::span<const int64_t> values) {
  onnx::NodeProto& added = node(name, "Constant", {});
  const auto count = static_cast<int64_t>(values.size());
  fill(value_of(added), onnx::TensorProto::INT64, {&count, 1}, values);
  return added.output(0);
}

std::string OnnxGraph::index(const std::string& name, int64_t value) {
  onnx::NodeProto& added = node(name, "Constant", {});
  fill(value_of(added), onnx::TensorProto::INT64, {}, std::span<const int64_t>(&value, 1));
  return added.output(0);
}

void OnnxGraph::rename_last(const std::string& value, const char* name) {
  onnx::NodeProto& last = *graph_.mutable_node(graph_.node_size() - 1);
  DDP_EXPECT(last.output(0) == value);
  last.set_output(0, name);
}

void OnnxGraph::set(onnx::NodeProto& to, const char* name, int64_t value) {
  attribute(to, name, onnx::AttributeProto::INT).set_i(value);
}

void OnnxGraph::set(onnx::NodeProto& to, const char* name, float value) {
  attribute(to, name, onnx::AttributeProto::FLOAT).set_f(value);
}

void OnnxGraph::set(onnx::NodeProto& to, const char* name, std::span<const int64_t> values) {
  onnx::AttributeProto& list = attribute(to, name, onnx::AttributeProto::INTS);
  for (const int64_t value : values) list.add_ints(value);
}

}  // namespace ddp
