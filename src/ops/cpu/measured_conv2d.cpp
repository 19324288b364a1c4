#include "ops/cpu/measured_conv2d.h"

#include "core/error.h"
#include "ops/conv2d_text.h"
#include "ops/cpu/blocked_conv2d.h"
#include "ops/cpu/conv_trial.h"

#include <algorithm>
#include <utility>

namespace ddp {
namespace {

constexpr int kPasses = 3;
constexpr const char* kNames[kPasses] = {"forward pass", "weight gradient", "input gradient"};

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

// Whether the products of a convolution take most of its time.
bool is_wide(const Conv2dDesc& desc) { return std::min(desc.input.c, desc.out_channels) / desc.groups >= 32; }

}  // namespace

ConvChooser::Choice ConvChooser::measure(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                                         int64_t n) {
  std::optional<ConvTrial> trial;
  Choice choice{};
  for (int pass = 0; pass < kPasses; ++pass) {
    if (pass == 2 && !desc.input_gradient) continue;
    const std::string name = fmt::format("{} of {}{}{}{}{}", kNames[pass], text_of(desc, n), desc.bias ? ", bias" : "",
                                         desc.relu ? ", ReLU" : "", desc.dense ? ", dense" : "",
                                         desc.input_format == Format{} ? "" : ", blocked");
    const auto known = measuring_.known.find(name);
    if (known != measuring_.known.end() && !known->second.empty()) fastest_.try_emplace(name, known->second[0]);
    if (!fastest_.contains(name)) {
      if ((since_first_ ? since_first_->seconds() : 0) >= measuring_.seconds) {
        choice[pass] = factors_.guess(conv_algorithms(workers, config, desc, n));
        continue;
      }
      if (!trial) trial.emplace(workers, config, desc, n, factors_.faster());
      if (!since_first_) since_first_.emplace();
      const MeasuredPass measured = trial->measure(name, pass);
      fastest_[name] = measured.fastest[0];
      if (is_wide(desc)) factors_.add(measured);
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
    plans.push_back(make_blocked_conv2d(workers, config_of(workers, config, desc, n, algorithms[pass]),
                                        part_of(desc, same), batch_sizes));
    if (plans.back()->output_format() != output) return suggested();
  }
  return plans.size() == 1 ? std::move(plans[0]) : std::make_unique<CombinedConv2d>(std::move(plans), plan_of);
}

}  // namespace ddp
