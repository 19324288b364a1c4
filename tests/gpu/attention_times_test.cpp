// Attention of cuDNN in bf16 beside our own kernels, which have f32 sums of exact products: the difference of their
// results, and the times of a forward and a backward pass.
#include "ops/cuda/cuda_ops.h"
#include "tests/gpu/fixture.h"
#include "tests/judge.h"
#include "tests/ops/on_device.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace ddp::testing {
namespace {

struct AttentionShape {
  const char* name;
  int64_t samples;
  AttentionDesc desc;
};

const AttentionShape kAttentionShapes[] = {
    {"ViT-B/16", 64, {.tokens = 197, .width = 768, .heads = 12}},
    {"GPT-2", 8, {.tokens = 1024, .width = 768, .heads = 12, .causal = true}},
};

class AttentionOnGpu : public ::testing::Test {
 protected:
  // Of the fastest of 5 rounds of 5 runs, in microseconds.
  double time(const std::function<void()>& issue) const {
    constexpr int kRounds = 5, kRuns = 5;
    issue();
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kRounds; ++round) {
      const OnDevice<int64_t> begin(*device_, {0}), end(*device_, {0});
      device_->timestamp(begin.data());
      for (int run = 0; run < kRuns; ++run) issue();
      device_->timestamp(end.data());
      best = std::min(best, static_cast<double>(end.values()[0] - begin.values()[0]) / 1000 / kRuns);
    }
    return best;
  }

  struct Result {
    Values y, dqkv;
    double forward, backward;  // microseconds
  };

  Result run(Attention& attention, const AttentionShape& shape) const {
    const Shape in{shape.samples, {shape.desc.tokens, 1, 3 * shape.desc.width}},
        out{shape.samples, {shape.desc.tokens, 1, shape.desc.width}};
    Device& device = *device_;
    const TensorOnDevice qkv(device, in, {}, DType::bf16, random_values(in.elements(), 1)),
        y(device, out, {}, DType::bf16), dy(device, out, {}, DType::bf16, random_values(out.elements(), 2)),
        dqkv(device, in, {}, DType::bf16);
    const double forward = time([&] { attention.forward(qkv.tensor(), y.tensor()); });
    const double backward = time([&] { attention.backward(qkv.tensor(), y.tensor(), dy.tensor(), dqkv.tensor()); });
    return {y.values(), dqkv.values(), forward, backward};
  }

  std::vector<MeasuredPass> measured_;
  const std::unique_ptr<Device> device_ = make_cuda_device({});
  CudaContext context_{*device_, {.precision = Precision::bf16}};
  const std::unique_ptr<Ops> ops_ = make_cuda_ops(
      *device_, {.precision = Precision::bf16,
                 .measuring = {.measured = [this](const MeasuredPass& pass) { measured_.push_back(pass); }}});
};

TEST_F(AttentionOnGpu, OfCudnnEqualsOurKernels) {
  for (const AttentionShape& shape : kAttentionShapes) {
    SCOPED_TRACE(shape.name);
    const int64_t sizes[] = {shape.samples};
    const Result ours = run(*make_attention_kernels(context_, shape.desc, sizes), shape),
                 cudnn = run(*ops_->attention(shape.desc, sizes), shape);
    for (const auto& [name, actual, expected] :
         {std::tuple{"y", &cudnn.y, &ours.y}, std::tuple{"dqkv", &cudnn.dqkv, &ours.dqkv}}) {
      const Deviation of = deviation(*actual, *expected);
      EXPECT_TRUE(of.error <= 1e-2 * of.norm && of.largest_error <= 2e-2 * of.largest) << name;
      print_figure(fmt::format("error of {}, {}", name, shape.name).c_str(), of.error / of.norm);
    }
    fmt::print(
        "attention: {:<10} forward {:8.1f} us, our kernels {:8.1f} us; backward {:8.1f} us, our kernels {:8.1f} us\n",
        shape.name, cudnn.forward, ours.forward, cudnn.backward, ours.backward);
    print_figure(fmt::format("times faster, {}", shape.name).c_str(),
                 (ours.forward + ours.backward) / (cudnn.forward + cudnn.backward));
  }
  EXPECT_EQ(measured_.size(), 2 * std::size(kAttentionShapes)) << "cuDNN is too old, or has one engine";
  for (const MeasuredPass& pass : measured_) {
    EXPECT_FALSE(pass.algorithms.empty()) << "cuDNN has no engine for the " << pass.name;
    for (const MeasuredPass::Algorithm& engine : pass.algorithms)
      fmt::print("attention: {}: engine {} {:.1f} us\n", pass.name, engine.number, engine.microseconds);
  }
}

}  // namespace
}  // namespace ddp::testing
