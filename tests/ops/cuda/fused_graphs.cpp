#include "tests/ops/cuda/fused_graphs.h"

#include <span>

namespace ddp::cudnn {

template <>
inline constexpr auto kAttributeType<cudnnGenStatsMode_t> = CUDNN_TYPE_GENSTATS_MODE;

namespace testing {
namespace {

int64_t product(const Dims& dims) { return dims[0] * dims[1] * dims[2] * dims[3]; }

class Builder {
 public:
  explicit Builder(DType type) : type_(type) {}

  Descriptor operand(const Dims& dims, DType type) {
    names_.push_back(static_cast<Operand>(++last_));
    bytes_.push_back(product(dims) * static_cast<int64_t>(size_of(type)));
    return tensor(last_, dims, type);
  }
  Descriptor operand(const Dims& dims) { return operand(dims, type_); }
  Descriptor between(const Dims& dims) { return tensor(++last_, dims, DType::f32, true); }

  FusedGraph graph(const Target& target, std::span<const Descriptor> operations) {
    return {graph_of(target, operations, names_), bytes_};
  }

 private:
  DType type_;
  int64_t last_ = 0;
  std::vector<Operand> names_;
  std::vector<int64_t> bytes_;
};

FusedGraph with_statistics(const Target& target, const Conv2dDesc& desc, const ConvDims& dims, Builder build) {
  const Dims channels{1, dims.y[1], 1, 1};
  const Descriptor x = build.operand(dims.x), w = build.operand(dims.w), y = build.operand(dims.y);
  const Descriptor products = desc.bias ? build.between(dims.y) : y, shifted = build.between(dims.y);
  std::vector operations{convolution(Pass::forward, desc.window, {x, w, products})};
  if (desc.bias) {
    const Descriptor bias = build.operand(channels);
    operations.push_back(pointwise(CUDNN_POINTWISE_ADD, products, &bias, y));
  }
  const Descriptor centre = build.operand(channels, DType::f32);
  operations.push_back(pointwise(CUDNN_POINTWISE_SUB, y, &centre, shifted));
  operations.push_back(Descriptor(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR)
                           .set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM)
                           .set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT)
                           .set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, shifted)
                           .set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, build.operand(channels, DType::f32))
                           .set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, build.operand(channels, DType::f32))
                           .finalize());
  return build.graph(target, operations);
}

FusedGraph with_a_sum(const Target& target, const Conv2dDesc& desc, const ConvDims& dims, bool relu, Builder build) {
  const Descriptor dy = build.operand(dims.y), w = build.operand(dims.w), other = build.operand(dims.x);
  const Descriptor dx = build.operand(dims.x), products = build.between(dims.x);
  const Descriptor sum = relu ? build.between(dims.x) : dx;
  std::vector operations{convolution(Pass::input_gradient, desc.window, {products, w, dy}),
                         pointwise(CUDNN_POINTWISE_ADD, products, &other, sum)};
  if (relu) {
    const Descriptor how = Descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                               .set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_RELU_BWD)
                               .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
                               .finalize();
    operations.push_back(Descriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                             .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how)
                             .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, build.operand(dims.x))
                             .set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, sum)
                             .set(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx)
                             .finalize());
  }
  return build.graph(target, operations);
}

}  // namespace

Pass pass_of(Fusion fusion) { return fusion == Fusion::statistics ? Pass::forward : Pass::input_gradient; }

FusedGraph fused_graph(const Target& target, const Conv2dDesc& desc, int64_t n, DType type, Fusion fusion) {
  const ConvDims dims = dims_of(desc, n);
  return fusion == Fusion::statistics ? with_statistics(target, desc, dims, Builder(type))
                                      : with_a_sum(target, desc, dims, fusion == Fusion::sum_and_relu, Builder(type));
}

FusedGraph plain_graph(const Target& target, const Conv2dDesc& desc, int64_t n, DType type, Pass pass) {
  const ConvDims dims = dims_of(desc, n);
  FusedGraph made{conv_graph(target, desc, n, type, pass), {}};
  for (const Operand operand : made.graph.operands)
    made.bytes.push_back(static_cast<int64_t>(size_of(type)) * (operand == Operand::x   ? product(dims.x)
                                                                : operand == Operand::w ? product(dims.w)
                                                                : operand == Operand::y ? product(dims.y)
                                                                                        : dims.y[1]));
  return made;
}

}  // namespace testing
}  // namespace ddp::cudnn
