// Times a forward and a backward pass of the loss of tokens and of an embedding on one core, for two samples of 256.
//
//   token_bench CASE [rounds]   prints the median in milliseconds; without a case it prints the cases
#include "device/buffer.h"
#include "device/cpu/device.h"
#include "ops/cpu/ops.h"
#include "tests/bench/median.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace ddp {
namespace {

constexpr int64_t kSamples = 2, kLength = 256, kVocabulary = 50257;

// `columns`: classes of the loss, or channels of the embedding. The gradient of the loss takes the place of the logits.
int time_case(bool loss, DType type, int64_t columns, int rounds) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {.precision = type == DType::bf16 ? Precision::bf16 : Precision::fp32});
  const Shape shape{kSamples, {kLength, 1, columns}};
  const size_t bytes = static_cast<size_t>(shape.elements()) * size_of(type);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 257) / 32;
  Buffer source(*device, bytes), memory(*device, bytes);
  if (type == DType::bf16)
    ops->to_bf16(values.data(), source.data(), shape.elements());
  else
    std::memcpy(source.data(), values.data(), bytes);
  std::vector<int32_t> tokens, labels(kSamples);
  for (int64_t i = 0; i < kSamples * (kLength + 1); ++i)
    tokens.push_back(static_cast<int32_t>(i * 7919 % (loss ? columns : kVocabulary)));
  const DeviceBatch batch{.samples = reinterpret_cast<const uint8_t*>(tokens.data()),
                          .labels = labels.data(),
                          .size = kSamples,
                          .sequence_length = kLength};
  std::vector<float> table(loss ? 0 : static_cast<size_t>(kVocabulary * columns)), gradient(table.size());
  const Tensor x{memory.data(), shape, {}, type};
  const auto prepare = [&] { std::memcpy(memory.data(), source.data(), bytes); };
  const auto work = [&] {
    float stats[2];
    if (loss) {
      ops->softmax_cross_entropy_backward(x, batch, 0.5f, 0, x, stats, Gradient::overwrite);
    } else {
      ops->embedding(batch, table.data(), x);
      ops->embedding_backward(batch, x, kVocabulary, gradient.data(), Gradient::overwrite);
    }
  };
  fmt::print("{:.3f}\n", median_milliseconds(rounds, prepare, work));
  return 0;
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
  if (name == "loss") return ddp::time_case(true, ddp::DType::f32, ddp::kVocabulary, rounds);
  if (name == "loss_bf16") return ddp::time_case(true, ddp::DType::bf16, ddp::kVocabulary, rounds);
  if (name == "bytes_loss") return ddp::time_case(true, ddp::DType::f32, 257, rounds);
  if (name == "embedding") return ddp::time_case(false, ddp::DType::f32, 768, rounds);
  fmt::print("loss\nloss_bf16\nbytes_loss\nembedding\n");
  return 0;
}
