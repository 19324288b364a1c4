#include "ops/cuda/cudnn_library.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

cudnnHandle_t create_cudnn() {
  cudnnHandle_t created = nullptr;
  DDP_CUDNN(cudnnCreate(&created));
  return created;
}

}  // namespace

CudnnLibrary::CudnnLibrary(cudaStream_t stream) : handle(create_cudnn()), target(handle.get()) {
  DDP_CUDNN(cudnnSetStream(handle.get(), stream));
}

cudnn::Choice CudnnLibrary::choose(CudaContext& context, const std::optional<EngineSearch>& search) {
  cudnn::Choice choice;
  const Measuring& measuring = context.config.measuring;
  const bool decided = measuring.decided && measuring.decided();
  if (search && !decided) {
    if (!fastest_.contains(search->name)) fastest_[search->name] = fastest(context, *search);
    choice = fastest_[search->name];
  }
  if (!measuring.agree) return choice;
  cudnn::ChoiceWords words = to_words(choice);
  measuring.agree(words);
  return cudnn::from_words(words);
}

cudnn::Choice CudnnLibrary::fastest(CudaContext& context, const EngineSearch& search) {
  const Measuring& config = context.config.measuring;
  if (const auto known = config.known.find(search.name); known != config.known.end())
    if (cudnn::Choice choice = cudnn::from_list(known->second); !choice.none()) return choice;
  const double left = config.seconds - (since_first_ ? since_first_->seconds() : 0);
  const bool measures = !search.rules.deterministic && left > 0;
  std::vector<cudnn::Plan> found = find_plans(target, search.graph(), search.rules, measures ? search.candidates : 1);
  const auto tell_of_none = [&] {
    if (!search.required && config.measured) config.measured({search.name, {}});
  };
  if (found.empty()) tell_of_none();
  if (found.size() < 2) return found.empty() ? cudnn::Choice{} : found.front().choice();
  if (!since_first_) since_first_.emplace();
  std::vector<double> times;
  try {
    times = measure(context, handle.get(), found, search.bytes, search.type, std::min(cudnn::kSecondsOfAPass, left));
  } catch (const Error&) {
    if (search.required) throw;
    tell_of_none();
    return {};
  }
  const cudnn::Choice best = found[std::ranges::min_element(times) - times.begin()].choice();
  if (config.measured) {
    MeasuredPass measured{search.name, {}, cudnn::to_list(best)};
    for (size_t i = 0; i < found.size(); ++i)
      if (std::isfinite(times[i])) measured.algorithms.push_back({found[i].choice().engine, times[i]});
    std::ranges::stable_sort(measured.algorithms, {}, &MeasuredPass::Algorithm::microseconds);
    config.measured(measured);
  }
  return best;
}

int64_t cudnn_workspace_limit() {
  size_t free = 0, total = 0;
  DDP_CUDA(cudaMemGetInfo(&free, &total));
  return int64_t{total > size_t{16} << 30 ? 512 : 64} << 20;
}

std::shared_ptr<CudnnLibrary> load_cudnn(const CudaContext& context) {
  return std::make_shared<CudnnLibrary>(context.stream);
}

std::string describe_cudnn() {
  const size_t version = cudnnGetVersion();  // 91900
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace ddp
