// Runs the operators of our ONNX models with plain loops in f64, as the ONNX specification defines them. It knows
// neither the network nor how the graph was made. An operator or an attribute that it does not know is an error.
#pragma once

#include <onnx/onnx.pb.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <span>
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
    for (const auto& tensor : model_.graph().initializer()) initializers_[tensor.name()] = read<float>(tensor);
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
    bool has(const char* name) const { return unread_.contains(name); }
    const onnx::TensorProto& tensor(const char* name) { return take(name).t(); }
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

  template <class T>
  static OnnxValue read(const onnx::TensorProto& tensor) {
    OnnxValue value{{tensor.dims().begin(), tensor.dims().end()}, {}};
    for (size_t at = 0; at < tensor.raw_data().size(); at += sizeof(T)) {
      T element{};
      std::memcpy(&element, tensor.raw_data().data() + at, sizeof element);
      value.values.push_back(static_cast<double>(element));
    }
    if (count(value.dims) != std::ssize(value.values)) throw std::runtime_error("a tensor of another size");
    return value;
  }

  template <class Function>
  static OnnxValue each(const OnnxValue& x, Function function) {
    OnnxValue y = x;
    for (double& value : y.values) value = function(value);
    return y;
  }

  static int64_t count(const std::vector<int64_t>& dims) {
    return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies{});
  }

  // Calls visit(index) with each index of a tensor of shape `dims`, in order.
  template <class Visit>
  static void each_index(const std::vector<int64_t>& dims, Visit visit) {
    std::vector<int64_t> index(dims.size());
    for (int64_t i = 0; i < count(dims); ++i) {
      visit(index);
      for (size_t d = dims.size(); d-- > 0 && ++index[d] == dims[d];) index[d] = 0;
    }
  }

  // The value at `index` of a shape to which `x` is broadcast.
  static double broadcast(const OnnxValue& x, const std::vector<int64_t>& index) {
    const size_t before = index.size() - x.dims.size();
    int64_t at = 0;
    for (size_t d = 0; d < x.dims.size(); ++d) at = at * x.dims[d] + (x.dims[d] == 1 ? 0 : index[before + d]);
    return x.values.at(static_cast<size_t>(at));
  }
  static std::vector<int64_t> common_shape(const OnnxValue& a, const OnnxValue& b) {
    std::vector<int64_t> dims(std::max(a.dims.size(), b.dims.size()), 1);
    for (const OnnxValue* const x : {&a, &b})
      for (size_t d = 0; d < x->dims.size(); ++d) {
        int64_t& dim = dims[dims.size() - x->dims.size() + d];
        if (dim != 1 && x->dims[d] != 1 && dim != x->dims[d]) throw std::runtime_error("shapes differ");
        dim = std::max(dim, x->dims[d]);
      }
    return dims;
  }

  template <class Function>
  static OnnxValue both(const OnnxValue& a, const OnnxValue& b, Function function) {
    OnnxValue y{a.dims, {}};
    if (a.dims == b.dims) {
      std::ranges::transform(a.values, b.values, std::back_inserter(y.values), function);
      return y;
    }
    y.dims = common_shape(a, b);
    each_index(y.dims,
               [&](const auto& index) { y.values.push_back(function(broadcast(a, index), broadcast(b, index))); });
    return y;
  }

  static OnnxValue reshape(const OnnxValue& x, const OnnxValue& shape) {
    OnnxValue y{{}, x.values};
    for (const double size : shape.values)
      y.dims.push_back(size == 0 ? x.dims.at(y.dims.size()) : static_cast<int64_t>(size));
    for (int64_t& dim : y.dims)
      if (dim == -1) {
        dim = 1;
        dim = count(x.dims) / count(y.dims);
      }
    if (count(y.dims) != count(x.dims)) throw std::runtime_error("Reshape");
    return y;
  }

  static size_t axis_of(const OnnxValue& x, int64_t axis) {
    return static_cast<size_t>(axis < 0 ? axis + std::ssize(x.dims) : axis);
  }

  static OnnxValue concat(const Inputs& in, int64_t of) {
    const size_t axis = axis_of(*in.at(0), of);
    OnnxValue y{in[0]->dims, {}};
    y.dims.at(axis) += in.at(1)->dims.at(axis);
    each_index(y.dims, [&](std::vector<int64_t> index) {
      const bool second = index[axis] >= in[0]->dims[axis];
      if (second) index[axis] -= in[0]->dims[axis];
      y.values.push_back(broadcast(*in[second ? 1 : 0], index));
    });
    return y;
  }

  // The dimensions of the indices take the place of the axis.
  static OnnxValue gather(const OnnxValue& x, const OnnxValue& indices, int64_t of) {
    const auto axis = static_cast<std::ptrdiff_t>(axis_of(x, of));
    OnnxValue y{{x.dims.begin(), x.dims.begin() + axis}, {}};
    y.dims.insert(y.dims.end(), indices.dims.begin(), indices.dims.end());
    y.dims.insert(y.dims.end(), x.dims.begin() + axis + 1, x.dims.end());
    const auto behind = axis + std::ssize(indices.dims);
    each_index(y.dims, [&](const std::vector<int64_t>& index) {
      std::vector<int64_t> from(index.begin(), index.begin() + axis);
      from.push_back(static_cast<int64_t>(broadcast(indices, {index.begin() + axis, index.begin() + behind})));
      if (from.back() < 0 || from.back() >= x.dims.at(static_cast<size_t>(axis))) throw std::runtime_error("Gather");
      from.insert(from.end(), index.begin() + behind, index.end());
      y.values.push_back(at_index(x, from));
    });
    return y;
  }

  static double at_index(const OnnxValue& x, const std::vector<int64_t>& index) {
    int64_t at = 0;
    for (size_t d = 0; d < x.dims.size(); ++d) at = at * x.dims[d] + index[d];
    return x.values.at(static_cast<size_t>(at));
  }

  // Of one axis, from 0 on.
  static OnnxValue slice(const Inputs& in) {
    const OnnxValue& x = *in.at(0);
    const auto number = [&](size_t input) {
      if (in.at(input)->dims != std::vector<int64_t>{1}) throw std::runtime_error("Slice");
      return static_cast<int64_t>(in[input]->values[0]);
    };
    if (in.size() != 4 || number(1) != 0) throw std::runtime_error("Slice");
    OnnxValue y{x.dims, {}};
    int64_t& length = y.dims.at(static_cast<size_t>(number(3)));
    length = std::min(length, number(2));
    each_index(y.dims, [&](const auto& index) { y.values.push_back(at_index(x, index)); });
    return y;
  }

  static OnnxValue range(const Inputs& in) {
    OnnxValue y{{0}, {}};
    for (const OnnxValue* const number : in)
      if (!number->dims.empty()) throw std::runtime_error("Range");
    for (double v = in.at(0)->values[0]; v < in.at(1)->values[0]; v += in.at(2)->values[0]) y.values.push_back(v);
    y.dims[0] = std::ssize(y.values);
    return y;
  }

  static OnnxValue where(const Inputs& in) {
    OnnxValue y{in.at(0)->dims, {}};  // no value has more dimensions
    each_index(y.dims, [&](const auto& index) {
      y.values.push_back(broadcast(*in.at(broadcast(*in[0], index) != 0 ? 1 : 2), index));
    });
    return y;
  }

  static OnnxValue expand(const OnnxValue& x, const OnnxValue& shape) {
    OnnxValue y;
    for (const double size : shape.values) y.dims.push_back(static_cast<int64_t>(size));
    each_index(y.dims, [&](const auto& index) { y.values.push_back(broadcast(x, index)); });
    return y;
  }

  static OnnxValue product(const OnnxValue& a, const OnnxValue& b) {
    const int64_t rows = *(a.dims.end() - 2), terms = a.dims.back(), columns = b.dims.back();
    if (*(b.dims.end() - 2) != terms) throw std::runtime_error("MatMul");
    OnnxValue y{{a.dims.begin(), a.dims.end() - 1}, {}};
    y.dims.push_back(columns);
    const bool shared = b.dims.size() == 2;  // by all matrices of a
    if (!shared && !std::equal(a.dims.begin(), a.dims.end() - 2, b.dims.begin(), b.dims.end() - 2))
      throw std::runtime_error("MatMul");
    for (int64_t i = 0; i < count(y.dims); ++i) {
      const int64_t matrix = i / (rows * columns), row = i / columns, column = i % columns;
      double sum = 0;
      for (int64_t k = 0; k < terms; ++k)
        sum += a.values.at(static_cast<size_t>(row * terms + k)) *
               b.values.at(static_cast<size_t>(((shared ? 0 : matrix) * terms + k) * columns + column));
      y.values.push_back(sum);
    }
    return y;
  }

  // Calls change(values) for each run of `length` values.
  template <class Change>
  static OnnxValue each_run(const OnnxValue& x, int64_t length, Change change) {
    OnnxValue y = x;
    for (size_t i = 0; i < y.values.size(); i += static_cast<size_t>(length))
      change(std::span(y.values).subspan(i, static_cast<size_t>(length)), i);
    return y;
  }
  static OnnxValue softmax(const OnnxValue& x, int64_t axis) {
    if (axis != -1) throw std::runtime_error("Softmax");
    return each_run(x, x.dims.back(), [](std::span<double> values, size_t) {
      const double largest = std::ranges::max(values);
      double sum = 0;
      for (double& v : values) sum += v = std::exp(v - largest);
      for (double& v : values) v /= sum;
    });
  }
  static void standardize(std::span<double> values, double epsilon) {
    const auto n = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
    double squares = 0;
    for (const double v : values) squares += (v - mean) * (v - mean);
    for (double& v : values) v = (v - mean) / std::sqrt(squares / n + epsilon);
  }
  static OnnxValue layer_norm(const Inputs& in, Attributes& attributes) {
    if (attributes.integer("axis") != -1) throw std::runtime_error("LayerNormalization");
    const double epsilon = attributes.number("epsilon");
    return each_run(*in.at(0), in[0]->dims.back(), [&](std::span<double> values, size_t) {
      standardize(values, epsilon);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = values[i] * in.at(1)->values.at(i) + in.at(2)->values.at(i);
    });
  }
  static OnnxValue instance_norm(const Inputs& in, double epsilon) {
    const OnnxValue& x = *in.at(0);
    const int64_t plane = count(x.dims) / (x.dim(0) * x.dim(1));
    return each_run(x, plane, [&](std::span<double> values, size_t at) {
      const size_t channel = at / static_cast<size_t>(plane) % static_cast<size_t>(x.dim(1));
      standardize(values, epsilon);
      for (double& v : values) v = v * in.at(1)->values.at(channel) + in.at(2)->values.at(channel);
    });
  }

  struct Window {
    explicit Window(Attributes& attributes)
        : kernel(attributes.ints("kernel_shape")),
          strides(attributes.ints("strides")),
          pads(attributes.ints("pads")),
          dilations(attributes.has("dilations") ? attributes.ints("dilations") : std::vector<int64_t>{1, 1}) {}

    // The shape of the output with this number of channels, filled with `value`.
    OnnxValue output(const OnnxValue& x, int64_t channels, double value) const {
      const auto extent = [&](size_t axis) { return (kernel.at(axis) - 1) * dilations.at(axis) + 1; };
      const int64_t h = (x.dim(2) + pads.at(0) + pads.at(2) - extent(0)) / strides.at(0) + 1,
                    w = (x.dim(3) + pads.at(1) + pads.at(3) - extent(1)) / strides.at(1) + 1;
      return {{x.dim(0), channels, h, w}, std::vector<double>(static_cast<size_t>(x.dim(0) * channels * h * w), value)};
    }

    // Calls `visit(y, x)` with each output of a plane whose window has an input at the place (i, j), and this input.
    template <class Visit>
    void each(const OnnxValue& in, const double* x, const OnnxValue& out, double* y, int64_t i, int64_t j,
              Visit visit) const {
      for (int64_t row = 0; row < out.dim(2); ++row) {
        const int64_t from = row * strides[0] - pads[0] + i * dilations[0];
        if (from < 0 || from >= in.dim(2)) continue;
        for (int64_t column = 0; column < out.dim(3); ++column) {
          const int64_t at = column * strides[1] - pads[1] + j * dilations[1];
          if (at >= 0 && at < in.dim(3)) visit(y[row * out.dim(3) + column], x[from * in.dim(3) + at]);
        }
      }
    }

    std::vector<int64_t> kernel, strides, pads, dilations;  // pads: top, left, bottom, right
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
    const int64_t groups = attributes.has("group") ? attributes.integer("group") : 1;
    if (weight.dim(1) * groups != x.dim(1) || weight.dim(0) % groups != 0 || weight.dim(2) != window.kernel[0] ||
        weight.dim(3) != window.kernel[1])
      throw std::runtime_error("Conv");
    OnnxValue y = window.output(x, weight.dim(0), 0);
    const int64_t taps = window.kernel[0] * window.kernel[1], all = x.dim(1) * taps, row = all / groups,
                  positions = y.dim(2) * y.dim(3);
    std::vector<double> patch(static_cast<size_t>(all * positions));  // what each output reads, padding included
    for (int64_t n = 0; n < x.dim(0); ++n) {
      for (int64_t c = 0; c < x.dim(1); ++c)
        for (int64_t tap = 0; tap < taps; ++tap) {
          std::vector<double> read(static_cast<size_t>(positions));
          window.each(x, plane(x, n, c), y, read.data(), tap / window.kernel[1], tap % window.kernel[1],
                      [](double& to, double value) { to = value; });
          for (int64_t k = 0; k < positions; ++k) patch[k * all + c * taps + tap] = read[k];
        }
      for (int64_t o = 0; o < y.dim(1); ++o)
        for (int64_t k = 0; k < positions; ++k)
          plane(y, n, o)[k] = std::inner_product(plane(weight, o, 0), plane(weight, o, 0) + row,
                                                 &patch[k * all + o / (y.dim(1) / groups) * row],
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
    const OnnxValue &x = *in.at(0), &weight = *in.at(1);
    if (attributes.integer("transB") != 1 || x.dims.size() != 2 || weight.dim(1) != x.dim(1))
      throw std::runtime_error("Gemm");
    OnnxValue y{{x.dim(0), weight.dim(0)}, {}};
    for (int64_t n = 0; n < x.dim(0); ++n)
      for (int64_t o = 0; o < weight.dim(0); ++o) {
        double sum = in.size() > 2 ? in[2]->values.at(static_cast<size_t>(o)) : 0;
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
    if (perm.size() != x.dims.size()) throw std::runtime_error("Transpose");
    OnnxValue y;
    for (const int64_t axis : perm) y.dims.push_back(x.dims.at(static_cast<size_t>(axis)));
    each_index(y.dims, [&](const auto& index) {
      std::vector<int64_t> from(index.size());
      for (size_t d = 0; d < index.size(); ++d) from[static_cast<size_t>(perm[d])] = index[d];
      y.values.push_back(broadcast(x, from));
    });
    return y;
  }

  static OnnxValue flatten(const OnnxValue& x, int64_t axis) {
    if (axis != 1) throw std::runtime_error("Flatten");
    return {{x.dim(0), x.dim(1) * x.dim(2) * x.dim(3)}, x.values};
  }

  static OnnxValue compute(const std::string& op, const Inputs& in, Attributes& attributes) {
    if (op == "Constant") {
      const onnx::TensorProto& tensor = attributes.tensor("value");
      return tensor.data_type() == onnx::TensorProto::INT64 ? read<int64_t>(tensor) : read<float>(tensor);
    }
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
    if (op == "Sigmoid") return each(x, [](double v) { return 1 / (1 + std::exp(-v)); });
    if (op == "Tanh") return each(x, [](double v) { return std::tanh(v); });
    if (op == "Erf") return each(x, [](double v) { return std::erf(v); });
    if (op == "HardSigmoid") {
      const double alpha = attributes.number("alpha"), beta = attributes.number("beta");
      return each(x, [=](double v) { return std::clamp(alpha * v + beta, 0.0, 1.0); });
    }
    if (op == "LeakyRelu") {
      const double alpha = attributes.number("alpha");
      return each(x, [=](double v) { return v < 0 ? alpha * v : v; });
    }
    if (op == "Clip") {
      const double low = in.at(1)->values.at(0), high = in.at(2)->values.at(0);
      return each(x, [=](double v) { return std::clamp(v, low, high); });
    }
    if (op == "LayerNormalization") return layer_norm(in, attributes);
    if (op == "InstanceNormalization") return instance_norm(in, attributes.number("epsilon"));
    if (op == "MatMul") return product(x, *in.at(1));
    if (op == "Softmax") return softmax(x, attributes.integer("axis"));
    if (op == "Reshape") return reshape(x, *in.at(1));
    if (op == "Concat") return concat(in, attributes.integer("axis"));
    if (op == "Gather") return gather(x, *in.at(1), attributes.has("axis") ? attributes.integer("axis") : 0);
    if (op == "Slice") return slice(in);
    if (op == "Range") return range(in);
    if (op == "Where") return where(in);
    if (op == "Less") return both(x, *in.at(1), [](double a, double b) { return a < b ? 1.0 : 0.0; });
    if (op == "Expand") return expand(x, *in.at(1));
    if (op == "Shape") return {{std::ssize(x.dims)}, {x.dims.begin(), x.dims.end()}};
    throw std::runtime_error("unknown operator " + op);
  }

  onnx::ModelProto model_;
  std::map<std::string, OnnxValue> initializers_;
};

}  // namespace ddp::testing
