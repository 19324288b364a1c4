#include "ops/cpu/conv_algorithm.h"

#include "ops/cpu/blocked_conv2d.h"

#include <algorithm>
#include <utility>

namespace ddp {
namespace {

OwnPasses passes_of(const Workers& workers, DnnlConfig config, const Conv2dDesc& desc, int64_t n,
                    const ConvAlgorithm& algorithm) {
  config.widen = algorithm.widen;
  config.own = algorithm.own;
  return own_passes(workers, config, desc, n);
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
    const auto passes = [&](OwnKernels own) { return passes_of(workers, config, desc, n, {widen, own}); };
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

DnnlConfig config_of(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc, int64_t n,
                     const ConvAlgorithm& algorithm) {
  DnnlConfig made = config;
  if (algorithm.own == OwnKernels::suggested) return made;
  // Where Winograd's algorithm can be ours, oneDNN's is slower and takes no slices.
  const bool can_be_ours = passes_of(workers, config, desc, n, {algorithm.widen, OwnKernels::all}).all;
  if (!algorithm.has_our_outputs() && can_be_ours) made.winograd = false;
  made.widen = algorithm.widen;
  made.own = algorithm.own;
  return made;
}

}  // namespace ddp
