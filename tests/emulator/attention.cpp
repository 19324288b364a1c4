#include "tests/emulator/attention.h"

#include "core/bf16.h"
#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace ddp::cudnn::emulated {
namespace {

using Index = std::array<int64_t, 4>;

// The values of a tensor: in the memory of an operand, or its own. Own values are NaN until they are written.
class TensorValues {
 public:
  TensorValues(const GraphTensor& tensor, void* operand) : t_(tensor), operand_(operand) {
    DDP_EXPECT(!tensor.is_operand == !operand);
    if (!operand) own_.assign(t_.bytes() / 2, t_.constant.value_or(std::nanf("")));
  }

  const Index& dims() const { return t_.dims; }

  float get(Index at) const {
    const int64_t i = offset(at);
    if (!operand_) return own_[i];
    return t_.type == GraphType::bf16 ? float_of_bf16(static_cast<const uint16_t*>(operand_)[i])
                                      : static_cast<const float*>(operand_)[i];
  }
  void set(Index at, double value) {
    const int64_t i = offset(at);
    const auto f = static_cast<float>(value);
    const bool bf16 = t_.type == GraphType::bf16;
    if (!operand_)
      own_[i] = bf16 ? float_of_bf16(bf16_of_float(f)) : f;
    else if (bf16)
      static_cast<uint16_t*>(operand_)[i] = bf16_of_float(f);
    else
      static_cast<float*>(operand_)[i] = f;
  }

 private:
  int64_t offset(const Index& at) const {
    int64_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += t_.dims[i] == 1 ? 0 : at[i] * t_.strides[i];
    return sum;
  }

  GraphTensor t_;
  void* operand_;
  std::vector<float> own_;
};

template <class F>
void each_index(const Index& dims, F&& f) {
  Index i{};
  for (i[0] = 0; i[0] < dims[0]; ++i[0])
    for (i[1] = 0; i[1] < dims[1]; ++i[1])
      for (i[2] = 0; i[2] < dims[2]; ++i[2])
        for (i[3] = 0; i[3] < dims[3]; ++i[3]) f(i);
}

double element(const Operation& o, std::vector<TensorValues>& values, const Index& at) {
  const auto [sample, head, row, column] = at;
  const TensorValues& a = values[o.a];
  const auto b = [&] { return static_cast<double>(values[o.b].get(at)); };
  const double x = o.op == Operator::matmul || o.op == Operator::max || o.op == Operator::sum ? 0 : a.get(at);
  switch (o.op) {
    case Operator::matmul: {
      DDP_EXPECT(a.dims()[3] == values[o.b].dims()[2]);
      double sum = 0;
      for (int64_t k = 0; k < a.dims()[3]; ++k)
        sum += static_cast<double>(a.get({sample, head, row, k})) * values[o.b].get({sample, head, k, column});
      return sum;
    }
    case Operator::max: {
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t k = 0; k < a.dims()[3]; ++k) largest = std::max<double>(largest, a.get({sample, head, row, k}));
      return largest;
    }
    case Operator::sum: {
      double sum = 0;
      for (int64_t k = 0; k < a.dims()[3]; ++k) sum += a.get({sample, head, row, k});
      return sum;
    }
    case Operator::add: return x + b();
    case Operator::subtract: return x - b();
    case Operator::multiply: return x * b();
    case Operator::divide: return x / b();
    case Operator::exp: return std::exp(x);
    case Operator::log: return std::log(x);
    case Operator::row: return static_cast<double>(row);
    case Operator::column: return static_cast<double>(column);
    case Operator::greater_or_equal: return x >= b() ? 1 : 0;
    case Operator::select: return values[o.where].get(at) != 0 ? x : b();
    case Operator::copy:
    case Operator::transpose: break;
  }
  return x;
}

}  // namespace

void compute(const AttentionGraph& graph, std::span<void* const> operands) {
  DDP_EXPECT(operands.size() == graph.operands.size());
  std::vector<void*> at(graph.tensors.size());
  for (size_t i = 0; i < operands.size(); ++i) at[graph.operands[i]] = operands[i];
  std::vector<TensorValues> values;
  for (size_t i = 0; i < at.size(); ++i) values.emplace_back(graph.tensors[i], at[i]);
  for (const Operation& o : graph.operations) {
    // Strides say where an element of the transposed matrix lies; the elements keep their order.
    if (o.op == Operator::transpose)
      each_index(values[o.a].dims(), [&](const Index& i) {
        values[o.y].set({i[0], i[1], i[3], i[2]}, values[o.a].get(i));
      });
    else
      each_index(values[o.y].dims(), [&](const Index& i) { values[o.y].set(i, element(o, values, i)); });
  }
}

}  // namespace ddp::cudnn::emulated
