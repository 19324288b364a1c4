#include "ops/cuda/cudnn_graph.h"

#include <string_view>
#include <utility>

namespace ddp::cudnn {
namespace {

Descriptor window(const Window2d& w) {
  return Descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {w.stride, w.stride})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {w.padding.top, w.padding.left})
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {w.padding.bottom, w.padding.right})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {w.dilation, w.dilation})
      .finalize();
}

}  // namespace

Descriptor tensor(int64_t id, const Dims& dims, DType type, bool is_virtual) {
  const auto [n, c, h, w] = dims;
  return Descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type == DType::f32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, {n, c, h, w})
      .set(CUDNN_ATTR_TENSOR_STRIDES, {h * w * c, 1, w * c, c})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
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

Descriptor convolution(Pass pass, const Window2d& w, const ConvTensors& t, bool add) {
  const Descriptor how = window(w);
  const float beta = add ? 1.0f : 0.0f;
  switch (pass) {
    case Pass::forward:
      return Descriptor(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, t.x)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, t.w)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, t.y)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, beta)
          .finalize();
    case Pass::weight_gradient:
      return Descriptor(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, how)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, t.x)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, t.y)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, t.w)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0f)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, beta)
          .finalize();
    case Pass::input_gradient: break;
  }
  return Descriptor(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, how)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, t.y)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, t.w)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, t.x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0f)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, beta)
      .finalize();
}

ConvDims dims_of(const Conv2dDesc& desc, int64_t n) {
  const ImageShape out = conv2d_output(desc);
  const int64_t k = desc.window.kernel, group = desc.input.c / desc.groups;  // cuDNN infers the groups from it
  return {{n, desc.input.c, desc.input.h, desc.input.w}, {out.c, group, k, k}, {n, out.c, out.h, out.w}};
}

Graph graph_of(const Target& target, std::span<const Descriptor> operations, std::vector<Operand> operands) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  if (target.handle()) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle());
  return {graph.finalize(), std::move(operands)};
}

Target::Target(const std::string& json) {
  description_ = Descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
                     .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::string_view(json))
                     .finalize();
}

Graph conv_graph(const Target& target, const Conv2dDesc& desc, int64_t n, DType type, Pass pass, bool add) {
  const ConvDims dims = dims_of(desc, n);
  const auto operand = [&](Operand name, const Dims& shape) { return tensor(static_cast<int64_t>(name), shape, type); };
  const ConvTensors tensors{operand(Operand::x, dims.x), operand(Operand::w, dims.w), operand(Operand::y, dims.y)};
  std::vector<Operand> operands{Operand::x, Operand::w, Operand::y};
  if (pass != Pass::forward)
    return graph_of(target, std::vector{convolution(pass, desc.window, tensors, add)}, std::move(operands));

  const auto between = [&](int64_t id) { return tensor(id, dims.y, DType::f32, true); };
  const Descriptor& y = tensors.y;
  const Descriptor sums = desc.relu ? between(101) : y, products = desc.bias ? between(100) : sums;
  std::vector<Descriptor> operations{convolution(pass, desc.window, {tensors.x, tensors.w, products})};
  if (desc.bias) {
    const Descriptor bias = operand(Operand::bias, {1, dims.y[1], 1, 1});
    operations.push_back(pointwise(CUDNN_POINTWISE_ADD, products, &bias, sums));
    operands.push_back(Operand::bias);
  }
  if (desc.relu) operations.push_back(pointwise(CUDNN_POINTWISE_RELU_FWD, sums, nullptr, y));
  return graph_of(target, operations, std::move(operands));
}

}  // namespace ddp::cudnn
