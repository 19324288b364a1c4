#include "core/error.h"
#include "ops/cuda/cudnn_graph.h"

#include <utility>

namespace ddp::cudnn {

template <>
inline constexpr auto kAttributeType<cudnnReduceTensorOp_t> = CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;

namespace {

cudnnDataType_t data_type(GraphType type) {
  switch (type) {
    case GraphType::f32: return CUDNN_DATA_FLOAT;
    case GraphType::bf16: return CUDNN_DATA_BFLOAT16;
    case GraphType::i32: return CUDNN_DATA_INT32;
    case GraphType::boolean: break;
  }
  return CUDNN_DATA_BOOLEAN;
}

Descriptor tensor_of(int64_t id, const GraphTensor& t) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(t.type))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(t.dims))
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(t.strides))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, !t.is_operand && !t.constant);
  if (t.constant) tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  return tensor.finalize();
}

Descriptor matmul(const Descriptor& a, const Descriptor& b, const Descriptor& y) {
  const Descriptor how =
      Descriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR).set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalize();
  return Descriptor(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how)
      .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, y)
      .finalize();
}

Descriptor reduction(cudnnReduceTensorOp_t op, const Descriptor& a, const Descriptor& y) {
  const Descriptor how = Descriptor(CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
                             .set(CUDNN_ATTR_REDUCTION_OPERATOR, op)
                             .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
                             .finalize();
  return Descriptor(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, a)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y)
      .finalize();
}

cudnnPointwiseMode_t pointwise_mode(Operator op) {
  switch (op) {
    case Operator::add: return CUDNN_POINTWISE_ADD;
    case Operator::subtract: return CUDNN_POINTWISE_SUB;
    case Operator::multiply: return CUDNN_POINTWISE_MUL;
    case Operator::divide: return CUDNN_POINTWISE_DIV;
    case Operator::exp: return CUDNN_POINTWISE_EXP;
    case Operator::log: return CUDNN_POINTWISE_LOG;
    case Operator::copy: return CUDNN_POINTWISE_IDENTITY;
    case Operator::row:
    case Operator::column: return CUDNN_POINTWISE_GEN_INDEX;
    case Operator::greater_or_equal: return CUDNN_POINTWISE_CMP_GE;
    case Operator::select: return CUDNN_POINTWISE_BINARY_SELECT;
    default: break;
  }
  fail(Exit::internal, "operator {} is not pointwise", static_cast<int>(op));
}

Descriptor pointwise_of(const Operation& o, const std::vector<Descriptor>& tensors) {
  Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, pointwise_mode(o.op))
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, o.op == Operator::greater_or_equal ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
  if (o.op == Operator::row) how.set(CUDNN_ATTR_POINTWISE_AXIS, int64_t{2});
  if (o.op == Operator::column) how.set(CUDNN_ATTR_POINTWISE_AXIS, int64_t{3});
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how.finalize())
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensors[o.a])
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors[o.y]);
  if (o.b >= 0) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensors[o.b]);
  if (o.where >= 0) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, tensors[o.where]);
  return operation.finalize();
}

Descriptor operation_of(const Operation& o, const std::vector<Descriptor>& tensors) {
  switch (o.op) {
    case Operator::matmul: return matmul(tensors[o.a], tensors[o.b], tensors[o.y]);
    case Operator::max: return reduction(CUDNN_REDUCE_TENSOR_MAX, tensors[o.a], tensors[o.y]);
    case Operator::sum: return reduction(CUDNN_REDUCE_TENSOR_ADD, tensors[o.a], tensors[o.y]);
    case Operator::transpose:
      return Descriptor(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
          .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensors[o.a])
          .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, tensors[o.y])
          .finalize();
    default: return pointwise_of(o, tensors);
  }
}

}  // namespace

Graph graph_of(const Target& target, const AttentionGraph& attention) {
  constexpr int64_t kFirstId = 1;
  std::vector<Descriptor> tensors, operations;
  std::vector<Constant> constants;
  for (const GraphTensor& t : attention.tensors) {
    const int64_t id = kFirstId + std::ssize(tensors);
    tensors.push_back(tensor_of(id, t));
    if (t.constant) constants.push_back({id, *t.constant});
  }
  for (const Operation& operation : attention.operations) operations.push_back(operation_of(operation, tensors));
  std::vector<Operand> operands;
  for (const int index : attention.operands) operands.push_back(static_cast<Operand>(kFirstId + index));
  Graph graph = graph_of(target, operations, std::move(operands));
  graph.constants = std::move(constants);
  return graph;
}

}  // namespace ddp::cudnn
