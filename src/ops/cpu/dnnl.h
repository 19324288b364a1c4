// One interface to the APIs of oneDNN 2 and oneDNN 3.
#pragma once

#include <dnnl.hpp>

namespace ddp::onednn {

struct ConvShape {
  dnnl::algorithm algorithm;
  dnnl::memory::desc src, weights, bias, dst;                 // a bias without dimensions means no bias
  dnnl::memory::dims strides, dilates, padding_l, padding_r;  // a dilate of 0: adjacent elements
};

inline dnnl::convolution_forward::primitive_desc forward(const dnnl::engine& engine, const ConvShape& s,
                                                         const dnnl::primitive_attr& attr) {
  const auto kind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kind,      s.algorithm, s.src,       s.weights,   s.bias,
          s.dst,  s.strides, s.dilates,   s.padding_l, s.padding_r, attr};
#else
  return {{kind, s.algorithm, s.src, s.weights, s.bias, s.dst, s.strides, s.dilates, s.padding_l, s.padding_r},
          attr,
          engine};
#endif
}

inline dnnl::convolution_backward_weights::primitive_desc backward_weights(
    const dnnl::engine& engine, const ConvShape& s, const dnnl::primitive_attr& attr,
    const dnnl::convolution_forward::primitive_desc& hint) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine,    s.algorithm, s.src,       s.weights,   s.bias, s.dst,
          s.strides, s.dilates,   s.padding_l, s.padding_r, hint,   attr};
#else
  return {{s.algorithm, s.src, s.weights, s.bias, s.dst, s.strides, s.dilates, s.padding_l, s.padding_r},
          attr,
          engine,
          hint};
#endif
}

inline dnnl::convolution_backward_data::primitive_desc backward_data(
    const dnnl::engine& engine, const ConvShape& s, const dnnl::primitive_attr& attr,
    const dnnl::convolution_forward::primitive_desc& hint) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, s.algorithm, s.src, s.weights, s.dst, s.strides, s.dilates, s.padding_l, s.padding_r, hint, attr};
#else
  return {{s.algorithm, s.src, s.weights, s.dst, s.strides, s.dilates, s.padding_l, s.padding_r}, attr, engine, hint};
#endif
}

}  // namespace ddp::onednn
