#include "ops/cpu/measured_conv2d.h"

#include "core/bf16.h"
#include "core/error.h"
#include "device/buffer.h"
#include "device/tensor.h"
#include "ops/conv2d_text.h"
#include "ops/cpu/blocked_conv2d.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace ddp {
namespace {

constexpr int kPasses = 3;
constexpr const char* kNames[kPasses] = {"forward pass", "weight gradient", "input gradient"};

// For n samples.
DnnlConfig with(const Workers& workers, DnnlConfig config, const Conv2dDesc& desc, int64_t n,
                const ConvAlgorithm& algorithm) {
  if (algorithm.own == OwnKernels::suggested) return config;
  config.widen = algorithm.widen;
  // Where Winograd's algorithm can be ours, oneDNN's is slower and takes no slices.
  config.own = OwnKernels::all;
  if (algorithm.own != OwnKernels::all && own_passes(workers, config, desc, n).all) config.winograd = false;
  config.own = algorithm.own;
  return config;
}

}  // namespace

int64_t ConvAlgorithm::number() const {
  return own == OwnKernels::suggested ? 0 : static_cast<int64_t>(own) + (widen ? 3 : 0);
}

std::optional<ConvAlgorithm> ConvAlgorithm::of(int64_t number) {
  if (number < 0 || number > 6) return std::nullopt;
  if (number == 0) return ConvAlgorithm{};
  return ConvAlgorithm{.widen = number > 3, .own = static_cast<OwnKernels>((number - 1) % 3 + 1)};
}

std::vector<ConvAlgorithm> conv_algorithms(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                                           int64_t n) {
  std::vector<ConvAlgorithm> found;
  const bool both = config.activations == DType::bf16 && multiplies_bf16(workers) && !uses_amx(config);
  for (const bool widen : {config.widen, !config.widen}) {
    if (widen != config.widen && !both) continue;
    const auto passes = [&](OwnKernels own) {
      DnnlConfig of = config;
      of.widen = widen;
      of.own = own;
      return own_passes(workers, of, desc, n);
    };
    const auto first = std::ssize(found);
    for (const auto& [own, wanted] :
         {std::pair{OwnKernels::all, OwnPasses{true, true}}, std::pair{OwnKernels::weights, OwnPasses{false, true}},
          std::pair{OwnKernels::none, OwnPasses{}}})
      if (passes(own) == wanted) found.push_back({widen, own});
    const OwnPasses suggested = passes(OwnKernels::suggested);
    std::stable_partition(found.begin() + first, found.end(),
                          [&](const ConvAlgorithm& algorithm) { return passes(algorithm.own) == suggested; });
  }
  return found;
}

namespace {

// The passes of `desc` that have these flags.
Conv2dDesc part_of(Conv2dDesc desc, const std::array<bool, kPasses>& passes) {
  desc.forward = passes[0];
  desc.weight_gradient &= passes[1];
  desc.bias_gradient &= passes[1];
  desc.input_gradient &= passes[2];
  return desc;
}

// Passes of several plans.
class CombinedConv2d final : public Conv2d {
 public:
  // passes[k] is the plan of pass k.
  CombinedConv2d(std::vector<std::unique_ptr<Conv2d>> plans, const std::array<size_t, kPasses>& passes)
      : plans_(std::move(plans)),
        forward_(*plans_[passes[0]]),
        weights_(*plans_[passes[1]]),
        data_(*plans_[passes[2]]) {}

  Format output_format() const override { return forward_.output_format(); }

  SliceSamples slices() const override {
    const SliceSamples weights = weights_.slices(), data = data_.slices();
    if (weights.backward == 0 || data.backward == 0) return {};
    return {forward_.slices().forward, std::max(weights.backward, data.backward)};
  }

  void bind(const WeightData& weight, const WeightData& bias) override {
    for (const auto& plan : plans_) plan->bind(weight, bias);
  }

  void forward(const Tensor& x, const Tensor& y) override { forward_.forward(x, y); }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t* bf16) override {
    weights_.backward_weight(x, y, dy, dweight, dbias, mode, bf16);
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override { data_.backward_input(dy, dx); }

 private:
  std::vector<std::unique_ptr<Conv2d>> plans_;
  Conv2d &forward_, &weights_, &data_;
};

// Operands of one convolution, with values of usual sizes.
class Operands {
 public:
  Operands(Device& device, const Conv2dDesc& desc, DType type, const Format& output, int64_t n)
      : desc_(desc), n_(n), type_(type), output_(output) {
    const int64_t kernel = desc.window.kernel;
    const int64_t weights = kernel * kernel * desc.input.c / desc.groups * desc.out_channels;
    for (Buffer* const image : {&x_, &dx_}) *image = filled(device, type, stored_elements(in(), desc.input_format));
    for (Buffer* const image : {&y_, &dy_}) *image = filled(device, type, stored_elements(out(), output));
    for (Buffer* const flat : {&weight_, &dweight_}) *flat = filled(device, DType::f32, weights);
    for (Buffer* const flat : {&bias_, &dbias_}) *flat = filled(device, DType::f32, desc.out_channels);
  }

  // Weights change with each step, so each run packs them again.
  double seconds(Conv2d& conv, int pass) const {
    const Tensor x{x_.data(), in(), desc_.input_format, type_}, dx{dx_.data(), in(), desc_.input_format, type_},
        y{y_.data(), out(), output_, type_}, dy{dy_.data(), out(), output_, type_};
    const Stopwatch watch;
    conv.bind({weight_.as<float>()}, {desc_.bias ? bias_.as<float>() : nullptr});
    if (pass == 0) conv.forward(x, y);
    if (pass == 1)
      conv.backward_weight(x, y, dy, dweight_.as<float>(), sums_bias(desc_) ? dbias_.as<float>() : nullptr,
                           Gradient::overwrite);
    if (pass == 2) conv.backward_input(dy, dx);
    return watch.seconds();
  }

 private:
  Shape in() const { return {n_, desc_.input}; }
  Shape out() const { return {n_, conv2d_output(desc_)}; }

  static Buffer filled(Device& device, DType type, int64_t count) {
    Buffer buffer(device, static_cast<size_t>(count) * size_of(type));
    for (int64_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(i * 37 % 101 - 50) / 64;
      if (type == DType::f32)
        buffer.as<float>()[i] = value;
      else
        buffer.as<uint16_t>()[i] = bf16_of_float(value);
    }
    return buffer;
  }

  Conv2dDesc desc_;
  int64_t n_;
  DType type_;
  Format output_;
  Buffer x_, dx_, y_, dy_, weight_, dweight_, bias_, dbias_;
};

// Samples of a measurement: a large batch is measured in part, if that has the same algorithms.
int64_t measured_samples(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc, int64_t n) {
  constexpr int64_t kMost = int64_t{1} << 30;  // multiplications
  const ImageShape out = conv2d_output(desc);
  const int64_t sample = out.elements() * desc.window.kernel * desc.window.kernel * desc.input.c / desc.groups;
  const int64_t most = std::max<int64_t>(kMost / std::max<int64_t>(sample, 1), 1);
  const auto all = conv_algorithms(workers, config, desc, n);
  auto samples = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
  while (samples < n && conv_algorithms(workers, config, desc, samples) != all) samples *= 2;
  return std::min(samples, n);
}

struct Candidate {
  ConvAlgorithm algorithm;
  std::unique_ptr<Conv2d> conv;
  double seconds = 0;
};

// The algorithms of one convolution, which run in turns.
class Trial {
 public:
  // `widen`: only these factors. Algorithms have the output format of the default, and slices where it has some: the
  // model was planned for both.
  Trial(const Workers& workers, DnnlConfig config, const Conv2dDesc& desc, int64_t n, std::optional<bool> widen)
      : widen_(widen) {
    const std::vector<ConvAlgorithm> all = conv_algorithms(workers, config, desc, n);
    if (all.size() < 2) return;
    const int64_t samples = measured_samples(workers, config, desc, n);
    config.scratch = std::make_shared<Scratch>(workers.device);
    std::optional<Format> output;
    bool slices = false;
    for (const ConvAlgorithm& algorithm : all) {
      auto conv = make_blocked_conv2d(workers, with(workers, config, desc, n, algorithm), desc, std::span(&samples, 1));
      if (!output) {
        output = conv->output_format();
        slices = conv->slices().forward > 0;
      }
      if (conv->output_format() != *output || (slices && conv->slices().forward == 0)) continue;
      if (algorithm.widen == widen.value_or(algorithm.widen)) candidates_.push_back({algorithm, std::move(conv)});
    }
    operands_.emplace(workers.device, desc, config.activations, *output, samples);
  }

  ~Trial() {
    candidates_.clear();
    operands_.reset();
#ifdef __GLIBC__
    malloc_trim(0);  // else this memory stays, beside the model's
#endif
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // The fastest algorithm of a pass, or the default if that is nearly as fast. A single one is not measured: without
  // others it has the number 0.
  MeasuredPass measure(const std::string& name, int pass) {
    constexpr double kHopeless = 1.3, kNearly = 1.05;
    constexpr int kRounds = 3;  // the first one touches memory, and does not count
    const std::vector<Candidate*> all = candidates_of(pass);
    if (all.size() < 2) return {name, {}, {widen_ && !all.empty() ? all[0]->algorithm.number() : 0}};
    std::vector<Candidate*> tried = all;
    for (int round = 0; round < kRounds; ++round) {
      for (Candidate* const candidate : tried) {
        const double seconds = operands_->seconds(*candidate->conv, pass);
        candidate->seconds = round < 2 ? seconds : std::min(seconds, candidate->seconds);
      }
      if (round == 0) continue;
      const double least = fastest(tried)->seconds;
      std::erase_if(tried, [&](const Candidate* candidate) { return candidate->seconds > kHopeless * least; });
    }
    const bool keeps_default = tried[0] == all[0] && tried[0]->seconds <= kNearly * fastest(tried)->seconds;
    MeasuredPass measured{name, {}, {(keeps_default ? tried[0] : fastest(tried))->algorithm.number()}};
    for (const Candidate* const candidate : all)
      measured.algorithms.push_back({candidate->algorithm.number(), candidate->seconds * 1e6});
    std::ranges::stable_sort(measured.algorithms, {}, &MeasuredPass::Algorithm::microseconds);
    return measured;
  }

 private:
  static Candidate* fastest(const std::vector<Candidate*>& tried) {
    return *std::ranges::min_element(tried, {}, &Candidate::seconds);
  }

  // Outputs and input gradients are oneDNN's unless all passes are ours.
  std::vector<Candidate*> candidates_of(int pass) {
    std::vector<Candidate*> found;
    for (Candidate& candidate : candidates_) {
      const auto same = [&](const Candidate* other) {
        return other->algorithm.widen == candidate.algorithm.widen && other->algorithm.own != OwnKernels::all &&
               candidate.algorithm.own != OwnKernels::all;
      };
      if (pass == 1 || std::ranges::none_of(found, same)) found.push_back(&candidate);
    }
    return found;
  }

  std::optional<bool> widen_;
  std::vector<Candidate> candidates_;
  std::optional<Operands> operands_;
};

// Whether the products of a convolution take most of its time.
bool is_wide(const Conv2dDesc& desc) { return std::min(desc.input.c, desc.out_channels) / desc.groups >= 32; }

}  // namespace

// Counts passes for which both kinds of factors were measured.
void ConvChooser::add_factors(const MeasuredPass& pass) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::array<double, 2> least{kNone, kNone};
  for (const auto& [number, microseconds] : pass.algorithms) {
    double& of = least[ConvAlgorithm::of(number)->widen];
    of = std::min(of, microseconds);
  }
  if (std::ranges::max(least) == kNone) return;
  for (const size_t widen : {0, 1}) of_factors_[widen] += least[widen];
}

std::optional<bool> ConvChooser::faster_factors(double times) const {
  if (std::ranges::max(of_factors_) <= times * std::ranges::min(of_factors_)) return std::nullopt;
  return of_factors_[1] < of_factors_[0];
}

ConvChooser::Choice ConvChooser::measure(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                                         int64_t n) {
  constexpr double kMuch = 1.25;  // then the other factors are not tried any more
  std::optional<Trial> trial;
  Choice choice{};
  const auto first_with = [&](bool widen) {
    for (const ConvAlgorithm& algorithm : conv_algorithms(workers, config, desc, n))
      if (algorithm.widen == widen) return algorithm.number();
    return int64_t{0};
  };
  for (int pass = 0; pass < kPasses; ++pass) {
    if (pass == 2 && !desc.input_gradient) continue;
    const std::string name = fmt::format("{} of {}{}{}{}{}", kNames[pass], text_of(desc, n), desc.bias ? ", bias" : "",
                                         desc.relu ? ", ReLU" : "", desc.dense ? ", dense" : "",
                                         desc.input_format == Format{} ? "" : ", blocked");
    const auto known = measuring_.known.find(name);
    if (known != measuring_.known.end() && !known->second.empty()) fastest_.try_emplace(name, known->second[0]);
    if (!fastest_.contains(name)) {
      if ((since_first_ ? since_first_->seconds() : 0) >= measuring_.seconds) {
        if (const auto widen = faster_factors(1)) choice[pass] = first_with(*widen);
        continue;
      }
      if (!trial) trial.emplace(workers, config, desc, n, faster_factors(kMuch));
      if (!since_first_) since_first_.emplace();
      const MeasuredPass measured = trial->measure(name, pass);
      fastest_[name] = measured.fastest[0];
      if (is_wide(desc)) add_factors(measured);
      if (measuring_.measured && measured.algorithms.size() > 1) measuring_.measured(measured);
    }
    choice[pass] = fastest_[name];
  }
  return choice;
}

std::unique_ptr<Conv2d> ConvChooser::make(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                                          std::span<const int64_t> batch_sizes) {
  DDP_EXPECT(!batch_sizes.empty());
  const int64_t n = std::ranges::max(batch_sizes);
  Choice choice{};
  if (desc.weight_gradient) {
    const bool decided = measuring_.decided && measuring_.decided();
    if (!decided) choice = measure(workers, config, desc, n);
    if (measuring_.agree) measuring_.agree(choice);
  }
  if (!desc.input_gradient) choice[2] = choice[0];
  const auto suggested = [&] { return make_blocked_conv2d(workers, config, desc, batch_sizes); };
  if (choice == Choice{}) return suggested();

  // Rank 0, or the run that made the choice, may have had another processor.
  const std::vector<ConvAlgorithm> possible = conv_algorithms(workers, config, desc, n);
  std::array<ConvAlgorithm, kPasses> algorithms;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto chosen = ConvAlgorithm::of(choice[pass]);
    if (chosen && std::ranges::find(possible, *chosen) != possible.end()) algorithms[pass] = *chosen;
  }
  const Format output = suggested()->output_format();
  std::vector<std::unique_ptr<Conv2d>> plans;
  std::array<size_t, kPasses> plan_of{};
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto first = std::ranges::find(algorithms, algorithms[pass]) - algorithms.begin();
    plan_of[pass] = first < pass ? plan_of[first] : plans.size();
    if (first < pass) continue;
    std::array<bool, kPasses> same;
    std::ranges::transform(algorithms, same.begin(), [&](const auto& other) { return other == algorithms[pass]; });
    plans.push_back(make_blocked_conv2d(workers, with(workers, config, desc, n, algorithms[pass]), part_of(desc, same),
                                        batch_sizes));
    if (plans.back()->output_format() != output) return suggested();
  }
  return plans.size() == 1 ? std::move(plans[0]) : std::make_unique<CombinedConv2d>(std::move(plans), plan_of);
}

}  // namespace ddp
