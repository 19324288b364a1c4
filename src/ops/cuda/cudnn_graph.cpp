#include "ops/cuda/cudnn_graph.h"

#include <array>
#include <string_view>
#include <utility>

namespace ddp::cudnn {
namespace {

using Dims = std::array<int64_t, 4>;  // n, c, h, w, for any memory order

cudnnDataType_t data_type(DType type) { return type == DType::f32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16; }

// A tensor with channels innermost. A virtual tensor is an intermediate value of the graph, without memory.
Descriptor tensor(int64_t id, const Dims& dims, cudnnDataType_t type, bool is_virtual = false) {
  const auto [n, c, h, w] = dims;
  return Descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, {n, c, h, w})
      .set(CUDNN_ATTR_TENSOR_STRIDES, {h * w * c, 1, w * c, c})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
      .finalize();
}

Descriptor tensor(Operand operand, const Dims& dims, DType type) {
  return tensor(static_cast<int64_t>(operand), dims, data_type(type));
}

Descriptor window(const Window2d& w) {
  return Descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {w.stride, w.stride})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {w.padding.top, w.padding.left})
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {w.padding.bottom, w.padding.right})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1})
      .finalize();
}

Descriptor pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b, const Descriptor& y) {
  const Descriptor how = Descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                             .set(CUDNN_ATTR_POINTWISE_MODE, mode)
                             .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
                             .finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  if (b) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  return operation.finalize();
}

}  // namespace

Target::Target(const std::string& json) {
  description_ = Descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
                     .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::string_view(json))
                     .finalize();
}

Graph conv_graph(const Target& target, const Conv2dDesc& desc, int64_t n, DType type, Pass pass, bool add) {
  const ImageShape out = conv2d_output(desc);
  const Dims y_dims{n, out.c, out.h, out.w};
  const int64_t k = desc.window.kernel;
  const Descriptor conv = window(desc.window);
  const Descriptor x = tensor(Operand::x, {n, desc.input.c, desc.input.h, desc.input.w}, type);
  const Descriptor w = tensor(Operand::w, {out.c, desc.input.c, k, k}, type);
  const Descriptor y = tensor(Operand::y, y_dims, type);
  std::vector<Operand> operands{Operand::x, Operand::w, Operand::y};
  std::vector<Descriptor> operations;

  switch (pass) {
    case Pass::forward: {
      const auto between = [&](int64_t id) { return tensor(id, y_dims, CUDNN_DATA_FLOAT, true); };
      const Descriptor sums = desc.relu ? between(101) : y, products = desc.bias ? between(100) : sums;
      operations.push_back(Descriptor(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, products)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f)
                               .finalize());
      if (desc.bias) {
        const Descriptor bias = tensor(Operand::bias, {1, out.c, 1, 1}, type);
        operations.push_back(pointwise(CUDNN_POINTWISE_ADD, products, &bias, sums));
        operands.push_back(Operand::bias);
      }
      if (desc.relu) operations.push_back(pointwise(CUDNN_POINTWISE_RELU_FWD, sums, nullptr, y));
      break;
    }
    case Pass::weight_gradient:
      operations.push_back(Descriptor(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, conv)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, y)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, w)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0f)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, add ? 1.0f : 0.0f)
                               .finalize());
      break;
    case Pass::input_gradient:
      operations.push_back(Descriptor(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, conv)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, y)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, x)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0f)
                               .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.0f)
                               .finalize());
      break;
  }

  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<const Descriptor>(operations));
  if (target.handle()) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle());
  return {graph.finalize(), std::move(operands)};
}

}  // namespace ddp::cudnn
