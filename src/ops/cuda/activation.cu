#include "core/error.h"
#include "ops/activation_functors.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/pack.cuh"

namespace ddp {
namespace {

template <class T, int W>
__global__ void activation_kernel(Activation activation, const T* x, T* y, int64_t count) {
  await_previous_kernel();
  with_kind(activation.kind, [&]<Activation::Kind kind>() {
    each_pack<W>(count, [&]<int N>(int64_t i) {
      auto values = load<N>(x + i);
      for (float& v : values.at) v = activated<kind>(v, activation.slope);
      store<N>(y + i, values);
    });
  });
}

template <class T, int W>
__global__ void activation_backward_kernel(Activation activation, const T* x, const T* dy, T* dx, int64_t count) {
  await_previous_kernel();
  with_kind(activation.kind, [&]<Activation::Kind kind>() {
    each_pack<W>(count, [&]<int N>(int64_t i) {
      const auto values = load<N>(x + i);
      auto gradients = load<N>(dy + i);
      for (int k = 0; k < N; ++k) gradients.at[k] *= derivative_at<kind>(values.at[k], activation.slope);
      store<N>(dx + i, gradients);
    });
  });
}

}  // namespace

void CudaOps::activation(const Activation& activation, const Tensor& x, const Tensor& y) {
  DDP_EXPECT(activation);
  if (activation.is_relu()) return relu(x, y);
  DDP_EXPECT(x.format == Format{} && y.format == Format{} && x.dtype == y.dtype && x.shape == y.shape);
  const int64_t count = x.shape.elements();
  with_packs(x.dtype, width_of(x.dtype, aligned(x.data, y.data)), [&]<class T, int N>() {
    launch(context_.stream, blocks_over(count / N + 1), kThreads, activation_kernel<T, N>, activation, data<T>(x),
           data<T>(y), count);
  });
}

void CudaOps::activation_backward(const Activation& activation, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  DDP_EXPECT(activation);
  if (activation.is_relu()) return relu_backward(x, dy, dx);
  DDP_EXPECT(x.format == Format{} && dy.format == Format{} && dx.format == Format{});
  DDP_EXPECT(x.dtype == dy.dtype && x.dtype == dx.dtype && x.shape == dy.shape && x.shape == dx.shape);
  const int64_t count = x.shape.elements();
  with_packs(x.dtype, width_of(x.dtype, aligned(x.data, dy.data, dx.data)), [&]<class T, int N>() {
    launch(context_.stream, blocks_over(count / N + 1), kThreads, activation_backward_kernel<T, N>, activation,
           data<T>(x), data<T>(dy), data<T>(dx), count);
  });
}

}  // namespace ddp
