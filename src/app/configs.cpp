#include "app/configs.h"

#include "app/abort.h"
#include "core/error.h"
#include "data/catalog.h"
#include "data/subset.h"
#include "ddp/hash.h"
#include "nn/models.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace ddp {

Datasets load_data(const Options& options) {
  Datasets data = open_datasets(options.dataset, options.data_path);
  if (options.train_samples > 0) data.train = std::make_unique<Subset>(std::move(data.train), options.train_samples);
  return data;
}

uint64_t fingerprint(const Dataset& data) {
  constexpr int64_t kImages = 256;
  const auto& [h, w, c] = data.image_shape();
  Hash hash;
  for (const int64_t number : {data.size(), h, w, c}) hash.add(static_cast<uint64_t>(number));
  for (int64_t i = 0; i < data.size(); ++i) hash.add(static_cast<uint64_t>(data.label(i)));
  std::vector<uint8_t> pixels(data.image_shape().elements());
  for (int64_t i = 0; i < data.size(); i += std::max<int64_t>(1, data.size() / kImages)) {
    data.read(i, pixels);
    for (const uint8_t pixel : pixels) hash.add(pixel);
  }
  return hash.value();
}

Network make_network(const Options& o, const Dataset& data) {
  Network network = make_model(o.model, data.image_shape(), data.classes());
  const bool about_norms = o.sync_bn || o.recompute_bn;
  require(!about_norms || !batch_norm_states_of(network).empty(), Exit::usage, "--{}: {} has no batch norms",
          o.sync_bn ? "sync-bn" : "bn-stats", o.model);
  return network;
}

std::vector<double> weights_of_ranks(const Options& options, int world) {
  if (options.rank_weights.empty()) return std::vector<double>(world, 1.0);
  require(static_cast<int>(options.rank_weights.size()) == world, Exit::usage,
          "--rank-weights has {} weights, but there are {} ranks; give one for each", options.rank_weights.size(),
          world);
  return options.rank_weights;
}

// Evaluation and recomputation take batches of what fits one micro-batch of training.
Samplers make_samplers(const Options& o, const Datasets& data, bool batch_norms, int rank,
                       const std::vector<double>& weights) {
  const int64_t batch = (o.batch_size + o.accumulate - 1) / o.accumulate;
  const auto sequential = [&](int64_t samples) {
    return DistributedSampler(samples, batch, Order::sequential, o.seed, rank, weights);
  };
  Samplers samplers{.train = DistributedSampler(data.train->size(), o.batch_size, Order::shuffled, o.seed, rank,
                                                weights, static_cast<int>(o.accumulate)),
                    .test = sequential(data.test->size()),
                    .statistics = {}};
  if (batch_norms && o.recompute_bn.value_or(true))
    samplers.statistics = sequential(std::min(PreciseBn::kSamples, data.train->size()));
  return samplers;
}

ReplicaConfig replica_config(const Options& o, const Samplers& samplers) {
  return {.batch_sizes = samplers.batch_sizes(),
          .caps = {o.bucket_cap_mb, o.first_bucket_mb},
          .optimizer = o.optimizer,
          .all_decay = !o.no_decay_bias_norm,
          .max_grad_norm = o.clip_grad_norm,
          .zero = o.zero > 0,
          .grad_dtype = o.grad_dtype,
          .sync_bn = o.sync_bn,
          .label_smoothing = static_cast<float>(o.label_smoothing),
          .seed = o.seed};
}

TrainConfig train_config(const Options& o) {
  return {.epochs = o.epochs,
          .max_steps = o.max_steps,
          .eval_every = o.eval_every,
          .check_every = o.check_every,
          .schedule = o.schedule,
          .step = {.micro_batches = static_cast<int>(o.accumulate), .skip_limit = o.skip_bad_steps},
          .save_every = o.save_every,
          .keep_best = o.keep_best,
          .device_data_bytes = static_cast<size_t>(o.device_data_mb) << 20};
}

WatchdogLimits limits_of(const Options& o, int rank) {
  WatchdogLimits limits;
  if (o.step_timeout) {
    const auto asked = std::chrono::milliseconds(std::llround(std::ceil(1e3 * *o.step_timeout)));
    limits.step = asked;
    for (auto* const limit : {&limits.start_up, &limits.saving})
      *limit = asked.count() == 0 ? asked : std::max(*limit, asked);
  }
  limits.report_delay = report_delay(rank);
  return limits;
}

void require_it_happens(const FaultInjection& injection, const Options& o, int64_t done, int64_t total) {
  using Kind = FaultInjection::Kind;
  const bool lasts = injection.kind == Kind::slow || injection.kind == Kind::enospc;  // from its step on
  require((lasts || injection.step > done) && injection.step <= total, Exit::usage,
          "--inject {}: this run does the steps from {} to {}", o.inject, done + 1, total);
  require(injection.kind != Kind::enospc || !o.save_every.never(), Exit::usage,
          "--inject {} does not go with --save-every never", o.inject);
}

std::optional<FaultInjection> injection_of(const Options& options, int world) {
  if (options.inject.empty()) return std::nullopt;
  const FaultInjection injection = parse_fault_injection(options.inject);
  require(injection.rank < world, Exit::usage, "--inject {}: there are {} ranks", options.inject, world);
  return injection;
}

}  // namespace ddp
