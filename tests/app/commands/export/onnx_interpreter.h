// Runs the operators of our ONNX models with plain loops in f64, as the ONNX specification defines them. It knows
// neither the network nor how the graph was made. An operator or an attribute that it does not know is an error.
#pragma once

#include <onnx/onnx.pb.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddp::testing {

struct OnnxValue {
  std::vector<int64_t> dims;
  std::vector<double> values;

  int64_t dim(size_t i) const { return i < dims.size() ? dims[i] : 1; }
  double at(int64_t n, int64_t c, int64_t y, int64_t x) const {
    return values.at(static_cast<size_t>(((n * dim(1) + c) * dim(2) + y) * dim(3) + x));
  }
};

class OnnxInterpreter {
 public:
  explicit OnnxInterpreter(const std::string& file) {
    if (!model_.ParseFromString(file)) throw std::runtime_error("not an ONNX model");
    for (const auto& tensor : model_.graph().initializer()) {
      OnnxValue& value = initializers_[tensor.name()];
      value.dims.assign(tensor.dims().begin(), tensor.dims().end());
      value.values.resize(tensor.raw_data().size() / sizeof(float));
      for (size_t i = 0; i < value.values.size(); ++i) {
        float element = 0;
        std::memcpy(&element, tensor.raw_data().data() + i * sizeof element, sizeof element);
        value.values[i] = element;
      }
    }
  }

  const onnx::ModelProto& model() const { return model_; }

  OnnxValue run(const OnnxValue& input) const {
    std::map<std::string, OnnxValue> values{{"input", input}};
    for (const auto& node : model_.graph().node()) {
      std::vector<const OnnxValue*> in;
      for (const std::string& name : node.input())
        in.push_back(&(initializers_.contains(name) ? initializers_ : values).at(name));
      Attributes attributes(node);
      OnnxValue out = compute(node.op_type(), in, attributes);
      attributes.require_all_read();
      if (!values.emplace(node.output(0), std::move(out)).second) throw std::runtime_error("twice: " + node.output(0));
    }
    return values.at("logits");
  }

 private:
  class Attributes {
   public:
    explicit Attributes(const onnx::NodeProto& node) {
      for (const auto& attribute : node.attribute()) unread_[attribute.name()] = &attribute;
    }
    std::vector<int64_t> ints(const char* name) {
      const auto& list = take(name).ints();
      return {list.begin(), list.end()};
    }
    int64_t integer(const char* name) { return take(name).i(); }
    double number(const char* name) { return take(name).f(); }
    void require_all_read() const {
      if (!unread_.empty()) throw std::runtime_error("unknown attribute " + unread_.begin()->first);
    }

   private:
    const onnx::AttributeProto& take(const char* name) {
      const onnx::AttributeProto& found = *unread_.at(name);
      unread_.erase(name);
      return found;
    }
    std::map<std::string, const onnx::AttributeProto*> unread_;
  };

  using Inputs = std::vector<const OnnxValue*>;

  template <class Function>
  static OnnxValue each(const OnnxValue& x, Function function) {
    OnnxValue y = x;
    for (double& value : y.values) value = function(value);
    return y;
  }

  // Both of one shape, or `b` is (channels, 1, 1).
  template <class Function>
  static OnnxValue both(const OnnxValue& a, const OnnxValue& b, Function function) {
    OnnxValue y = a;
    const size_t plane = static_cast<size_t>(a.dim(2) * a.dim(3)), channels = static_cast<size_t>(a.dim(1));
    const bool per_channel = b.dims == std::vector<int64_t>{a.dim(1), 1, 1};
    if (!per_channel && a.dims != b.dims) throw std::runtime_error("shapes differ");
    for (size_t i = 0; i < y.values.size(); ++i)
      y.values[i] = function(a.values[i], b.values[per_channel ? i / plane % channels : i]);
    return y;
  }

  struct Window {
    explicit Window(Attributes& attributes)
        : kernel(attributes.ints("kernel_shape")), strides(attributes.ints("strides")), pads(attributes.ints("pads")) {}

    // The shape of the output with this number of channels, filled with `value`.
    OnnxValue output(const OnnxValue& x, int64_t channels, double value) const {
      const int64_t h = (x.dim(2) + pads.at(0) + pads.at(2) - kernel.at(0)) / strides.at(0) + 1,
                    w = (x.dim(3) + pads.at(1) + pads.at(3) - kernel.at(1)) / strides.at(1) + 1;
      return {{x.dim(0), channels, h, w}, std::vector<double>(static_cast<size_t>(x.dim(0) * channels * h * w), value)};
    }

    // Calls `visit(y, x)` with each output of a plane whose window has an input at the place (i, j), and this input.
    template <class Visit>
    void each(const OnnxValue& in, const double* x, const OnnxValue& out, double* y, int64_t i, int64_t j,
              Visit visit) const {
      for (int64_t row = 0; row < out.dim(2); ++row) {
        const int64_t from = row * strides[0] - pads[0] + i;
        if (from < 0 || from >= in.dim(2)) continue;
        for (int64_t column = 0; column < out.dim(3); ++column) {
          const int64_t at = column * strides[1] - pads[1] + j;
          if (at >= 0 && at < in.dim(3)) visit(y[row * out.dim(3) + column], x[from * in.dim(3) + at]);
        }
      }
    }

    std::vector<int64_t> kernel, strides, pads;  // pads: top, left, bottom, right
  };

  static const double* plane(const OnnxValue& of, int64_t n, int64_t c) {
    return of.values.data() + (n * of.dim(1) + c) * of.dim(2) * of.dim(3);
  }
  static double* plane(OnnxValue& of, int64_t n, int64_t c) {
    return of.values.data() + (n * of.dim(1) + c) * of.dim(2) * of.dim(3);
  }

  static OnnxValue convolve(const Inputs& in, Attributes& attributes) {
    const OnnxValue &x = *in.at(0), &weight = *in.at(1);
    const Window window(attributes);
    if (weight.dim(1) != x.dim(1) || weight.dim(2) != window.kernel[0] || weight.dim(3) != window.kernel[1])
      throw std::runtime_error("Conv");
    OnnxValue y = window.output(x, weight.dim(0), 0);
    const int64_t taps = window.kernel[0] * window.kernel[1], row = x.dim(1) * taps, positions = y.dim(2) * y.dim(3);
    std::vector<double> patch(static_cast<size_t>(row * positions));  // what each output reads, padding included
    for (int64_t n = 0; n < x.dim(0); ++n) {
      for (int64_t c = 0; c < x.dim(1); ++c)
        for (int64_t tap = 0; tap < taps; ++tap) {
          std::vector<double> read(static_cast<size_t>(positions));
          window.each(x, plane(x, n, c), y, read.data(), tap / window.kernel[1], tap % window.kernel[1],
                      [](double& to, double value) { to = value; });
          for (int64_t k = 0; k < positions; ++k) patch[k * row + c * taps + tap] = read[k];
        }
      for (int64_t o = 0; o < y.dim(1); ++o)
        for (int64_t k = 0; k < positions; ++k)
          plane(y, n, o)[k] = std::inner_product(plane(weight, o, 0), plane(weight, o, 0) + row, &patch[k * row],
                                                 in.size() > 2 ? in[2]->values.at(static_cast<size_t>(o)) : 0.0);
    }
    return y;
  }

  // No window of an average has padding.
  static OnnxValue pool(const OnnxValue& x, bool average, Attributes& attributes) {
    const Window window(attributes);
    OnnxValue y = window.output(x, x.dim(1), average ? 0 : -std::numeric_limits<double>::infinity());
    const double share = 1.0 / static_cast<double>(window.kernel[0] * window.kernel[1]);
    if (average && std::ranges::any_of(window.pads, [](int64_t pad) { return pad != 0; }))
      throw std::runtime_error("AveragePool with padding");
    for (int64_t n = 0; n < x.dim(0); ++n)
      for (int64_t c = 0; c < x.dim(1); ++c)
        for (int64_t i = 0; i < window.kernel[0]; ++i)
          for (int64_t j = 0; j < window.kernel[1]; ++j)
            window.each(x, plane(x, n, c), y, plane(y, n, c), i, j,
                        [&](double& to, double value) { to = average ? to + share * value : std::max(to, value); });
    return y;
  }

  static OnnxValue global_average(const OnnxValue& x) {
    OnnxValue y{{x.dim(0), x.dim(1), 1, 1}, {}};
    const auto plane = static_cast<size_t>(x.dim(2) * x.dim(3));
    for (size_t i = 0; i < x.values.size(); i += plane) {
      double sum = 0;
      for (size_t k = 0; k < plane; ++k) sum += x.values[i + k];
      y.values.push_back(sum / static_cast<double>(plane));
    }
    return y;
  }

  static OnnxValue multiply(const Inputs& in, Attributes& attributes) {
    const OnnxValue &x = *in.at(0), &weight = *in.at(1), &bias = *in.at(2);
    if (attributes.integer("transB") != 1 || x.dims.size() != 2 || weight.dim(1) != x.dim(1))
      throw std::runtime_error("Gemm");
    OnnxValue y{{x.dim(0), weight.dim(0)}, {}};
    for (int64_t n = 0; n < x.dim(0); ++n)
      for (int64_t o = 0; o < weight.dim(0); ++o) {
        double sum = bias.values.at(static_cast<size_t>(o));
        for (int64_t i = 0; i < x.dim(1); ++i) sum += x.values[n * x.dim(1) + i] * weight.values[o * x.dim(1) + i];
        y.values.push_back(sum);
      }
    return y;
  }

  static OnnxValue normalize(const Inputs& in, double epsilon) {
    OnnxValue y = *in.at(0);
    const size_t plane = static_cast<size_t>(y.dim(2) * y.dim(3)), channels = static_cast<size_t>(y.dim(1));
    for (size_t i = 0; i < y.values.size(); ++i) {
      const size_t c = i / plane % channels;
      const auto of = [&](size_t input) { return in.at(input)->values.at(c); };
      y.values[i] = (y.values[i] - of(3)) / std::sqrt(of(4) + epsilon) * of(1) + of(2);
    }
    return y;
  }

  static OnnxValue transpose(const OnnxValue& x, const std::vector<int64_t>& perm) {
    if (perm != std::vector<int64_t>{0, 3, 1, 2}) throw std::runtime_error("Transpose");
    OnnxValue y{{x.dim(0), x.dim(3), x.dim(1), x.dim(2)}, {}};
    for (int64_t n = 0; n < x.dim(0); ++n)
      for (int64_t c = 0; c < x.dim(3); ++c)
        for (int64_t i = 0; i < x.dim(1); ++i)
          for (int64_t j = 0; j < x.dim(2); ++j) y.values.push_back(x.at(n, i, j, c));
    return y;
  }

  static OnnxValue flatten(const OnnxValue& x, int64_t axis) {
    if (axis != 1) throw std::runtime_error("Flatten");
    return {{x.dim(0), x.dim(1) * x.dim(2) * x.dim(3)}, x.values};
  }

  static OnnxValue compute(const std::string& op, const Inputs& in, Attributes& attributes) {
    const OnnxValue& x = *in.at(0);
    if (op == "Conv") return convolve(in, attributes);
    if (op == "Gemm") return multiply(in, attributes);
    if (op == "BatchNormalization") return normalize(in, attributes.number("epsilon"));
    if (op == "Relu") return each(x, [](double v) { return std::max(v, 0.0); });
    if (op == "AveragePool" || op == "MaxPool") return pool(x, op == "AveragePool", attributes);
    if (op == "GlobalAveragePool") return global_average(x);
    if (op == "Flatten") return flatten(x, attributes.integer("axis"));
    if (op == "Add") return both(x, *in.at(1), [](double a, double b) { return a + b; });
    if (op == "Mul") return both(x, *in.at(1), [](double a, double b) { return a * b; });
    if (op == "Transpose") return transpose(x, attributes.ints("perm"));
    if (op == "Cast" && attributes.integer("to") == onnx::TensorProto::FLOAT) return x;
    throw std::runtime_error("unknown operator " + op);
  }

  onnx::ModelProto model_;
  std::map<std::string, OnnxValue> initializers_;
};

}  // namespace ddp::testing
