// Builds an ONNX graph, node by node. Each node has one output, NAME.output. Constants are nodes too, because the
// initializers are the network's own tensors.
#pragma once

#include <onnx/onnx.pb.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace ddp {

class OnnxGraph {
 public:
  explicit OnnxGraph(onnx::GraphProto& graph) : graph_(graph) {}

  // A value with the free dimension "batch" before those of a sample, of which one may be kFree: "sequence".
  static constexpr int64_t kFree = 0;
  void input(const char* name, int32_t type, std::span<const int64_t> sample);
  void output(const char* name, int32_t type, std::span<const int64_t> sample);
  void initializer(const std::string& name, std::span<const int64_t> shape, std::span<const float> values);

  onnx::NodeProto& node(const std::string& name, const char* op, std::initializer_list<std::string> inputs);
  // Each returns the name of the output.
  std::string add(const std::string& name, const char* op, std::initializer_list<std::string> inputs) {
    return node(name, op, inputs).output(0);
  }
  std::string transpose(const std::string& name, const std::string& value, std::initializer_list<int64_t> perm);
  // In `shape`, 0 stands for the dimension of the input, and -1 for what remains.
  std::string reshape(const std::string& name, const std::string& value, std::initializer_list<int64_t> shape);
  std::string constant(const std::string& name, float value);  // a scalar
  std::string constant(const std::string& name, std::span<const int64_t> shape, std::span<const float> values);
  std::string constant(const std::string& name, std::span<const int64_t> values);
  std::string index(const std::string& name, int64_t value);  // a scalar

  // The last node, which has the output `value`, gets the output `name`.
  void rename_last(const std::string& value, const char* name);
  bool has_nodes() const { return graph_.node_size() > 0; }

  static void set(onnx::NodeProto& to, const char* name, int64_t value);
  static void set(onnx::NodeProto& to, const char* name, float value);
  static void set(onnx::NodeProto& to, const char* name, std::span<const int64_t> values);

  // The operator set that the nodes need.
  void need(int64_t operator_set) { operator_set_ = std::max(operator_set_, operator_set); }
  int64_t operator_set() const { return operator_set_; }

 private:
  onnx::GraphProto& graph_;
  int64_t operator_set_ = 13;
};

}  // namespace ddp
