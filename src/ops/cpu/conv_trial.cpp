#include "ops/cpu/conv_trial.h"

#include "core/bf16.h"
#include "core/stopwatch.h"
#include "device/buffer.h"
#include "device/tensor.h"
#include "ops/cpu/blocked_conv2d.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace ddp {

// Operands of one convolution, with values of usual sizes.
class ConvOperands {
 public:
  ConvOperands(Device& device, const Conv2dDesc& desc, DType type, const Format& output, int64_t n)
      : desc_(desc), n_(n), type_(type), output_(output) {
    const int64_t kernel = desc.window.kernel;
    const int64_t weights = kernel * kernel * desc.input.c / desc.groups * desc.out_channels;
    x_ = filled(device, type, stored_elements(in(), desc.input_format));
    y_ = filled(device, type, stored_elements(out(), output));
    for (Buffer* const flat : {&weight_, &dweight_}) *flat = filled(device, DType::f32, weights);
    for (Buffer* const flat : {&bias_, &dbias_}) *flat = filled(device, DType::f32, desc.out_channels);
  }

  // Weights change with each step, so each run packs them again. Gradients share the memory of their images.
  double seconds(Conv2d& conv, int pass) const {
    const Tensor x{x_.data(), in(), desc_.input_format, type_}, y{y_.data(), out(), output_, type_};
    const Stopwatch watch;
    conv.bind({weight_.as<float>()}, {desc_.bias ? bias_.as<float>() : nullptr});
    if (pass == 0) conv.forward(x, y);
    if (pass == 1)
      conv.backward_weight(x, y, y, dweight_.as<float>(), sums_bias(desc_) ? dbias_.as<float>() : nullptr,
                           Gradient::overwrite);
    if (pass == 2) conv.backward_input(y, x);
    return watch.seconds();
  }

 private:
  Shape in() const { return {n_, desc_.input}; }
  Shape out() const { return {n_, conv2d_output(desc_)}; }

  // A pattern of 101 values.
  static Buffer filled(Device& device, DType type, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * size_of(type);
    Buffer buffer(device, bytes);
    for (int64_t i = 0; i < std::min<int64_t>(count, 101); ++i) {
      const float value = static_cast<float>(i * 37 % 101 - 50) / 64;
      if (type == DType::f32)
        buffer.as<float>()[i] = value;
      else
        buffer.as<uint16_t>()[i] = bf16_of_float(value);
    }
    auto* const data = buffer.as<std::byte>();
    for (size_t done = 101 * size_of(type); done < bytes; done *= 2)
      std::memcpy(data + done, data, std::min(done, bytes - done));
    return buffer;
  }

  Conv2dDesc desc_;
  int64_t n_;
  DType type_;
  Format output_;
  Buffer x_, y_, weight_, dweight_, bias_, dbias_;
};

namespace {

// Samples of a measurement: a large batch is measured in part, if that has the same algorithms.
int64_t measured_samples(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc, int64_t n) {
  constexpr int64_t kMost = int64_t{1} << 31;  // multiplications
  const ImageShape out = conv2d_output(desc);
  const int64_t sample = out.elements() * desc.window.kernel * desc.window.kernel * desc.input.c / desc.groups;
  const int64_t most = std::max<int64_t>(kMost / std::max<int64_t>(sample, 1), 1);
  const auto all = conv_algorithms(workers, config, desc, n);
  auto samples = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
  while (samples < n && conv_algorithms(workers, config, desc, samples) != all) samples *= 2;
  return std::min(samples, n);
}

}  // namespace

ConvTrial::ConvTrial(const Workers& workers, DnnlConfig config, const Conv2dDesc& desc, int64_t n,
                     const FasterFactors& factors)
    : factors_(factors) {
  const std::vector<ConvAlgorithm> all = conv_algorithms(workers, config, desc, n);
  if (all.size() < 2) return;
  const int64_t samples = measured_samples(workers, config, desc, n);
  config.scratch = std::make_shared<Scratch>(workers.device);
  std::optional<Format> output;
  bool slices = false;
  for (const ConvAlgorithm& algorithm : all) {
    const bool wanted = algorithm.widen == factors[algorithm.has_our_outputs()].value_or(algorithm.widen);
    if (output && !wanted) continue;
    auto conv =
        make_blocked_conv2d(workers, config_of(workers, config, desc, n, algorithm), desc, std::span(&samples, 1));
    if (!output) {
      output = conv->output_format();
      slices = conv->slices().forward > 0;
    }
    if (conv->output_format() != *output || (slices && conv->slices().forward == 0)) continue;
    if (wanted) candidates_.push_back({algorithm, std::move(conv)});
  }
  operands_ = std::make_unique<ConvOperands>(workers.device, desc, config.activations, *output, samples);
}

ConvTrial::~ConvTrial() {
  candidates_.clear();
  operands_.reset();
#ifdef __GLIBC__
  malloc_trim(0);  // else this memory stays, beside the model's
#endif
}

ConvTrial::Candidate* ConvTrial::fastest(const std::vector<Candidate*>& tried) {
  return *std::ranges::min_element(tried, {}, &Candidate::seconds);
}

// Outputs and input gradients are oneDNN's unless all passes are ours.
std::vector<ConvTrial::Candidate*> ConvTrial::candidates_of(int pass) {
  std::vector<Candidate*> found;
  for (Candidate& candidate : candidates_) {
    const auto same = [&](const Candidate* other) {
      return other->algorithm.widen == candidate.algorithm.widen && !other->algorithm.has_our_outputs() &&
             !candidate.algorithm.has_our_outputs();
    };
    if (pass == 1 || std::ranges::none_of(found, same)) found.push_back(&candidate);
  }
  return found;
}

MeasuredPass ConvTrial::measure(const std::string& name, int pass) {
  constexpr double kFarSlower = 2, kHopeless = 1.2, kNearly = 1.05;
  constexpr int kRounds = 3;  // after the first one, which touches memory, only what is far slower is dropped
  const std::vector<Candidate*> all = candidates_of(pass);
  const bool restricted = factors_[0] || factors_[1];
  if (all.size() < 2) return {name, {}, {restricted && !all.empty() ? all[0]->algorithm.number() : 0}};
  std::vector<Candidate*> tried = all;
  for (int round = 0; round < kRounds && (round < 2 || tried.size() > 1); ++round) {
    for (Candidate* const candidate : tried) {
      const double seconds = operands_->seconds(*candidate->conv, pass);
      candidate->seconds = round < 2 ? seconds : std::min(seconds, candidate->seconds);
      candidate->cold = round == 0;
    }
    const double most = (round == 0 ? kFarSlower : kHopeless) * fastest(tried)->seconds;
    std::erase_if(tried, [&](const Candidate* candidate) { return candidate->seconds > most; });
  }
  const bool keeps_default = tried[0] == all[0] && tried[0]->seconds <= kNearly * fastest(tried)->seconds;
  MeasuredPass measured{name, {}, {(keeps_default ? tried[0] : fastest(tried))->algorithm.number()}};
  for (const Candidate* const candidate : all)
    measured.algorithms.push_back({candidate->algorithm.number(), candidate->seconds * 1e6, candidate->cold});
  std::ranges::stable_sort(measured.algorithms, {}, &MeasuredPass::Algorithm::microseconds);
  return measured;
}

}  // namespace ddp
