#include "app/run.h"

#include "app/banner.h"
#include "app/factory.h"
#include "app/fatal.h"
#include "app/options.h"
#include "app/output_folder.h"
#include "app/results.h"
#include "app/terminal.h"
#include "app/threads.h"
#include "app/together.h"
#include "core/log.h"
#include "data/catalog.h"
#include "data/sampler.h"
#include "data/subset.h"
#include "ddp/hash.h"
#include "ddp/replica_check.h"
#include "nn/models.h"
#include "train/plan_report.h"
#include "train/replica.h"
#include "train/reporter.h"
#include "train/state_dict.h"
#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ddp {
namespace {

uint64_t hash_of(const std::string& text) {
  Hash hash;
  for (const char c : text) hash.add(static_cast<unsigned char>(c));
  return hash.value();
}

// Of its size and shape, not of its pixels.
uint64_t hash_of(const Dataset& data) {
  const auto& [h, w, c] = data.image_shape();
  Hash hash;
  for (const int64_t number : {data.size(), h, w, c}) hash.add(static_cast<uint64_t>(number));
  return hash.value();
}

Datasets load_data(const Options& options) {
  Datasets data = open_datasets(options.dataset, options.data_path);
  if (options.train_samples > 0) data.train = std::make_unique<Subset>(std::move(data.train), options.train_samples);
  return data;
}

std::vector<double> weights_of_ranks(const Options& options, int world) {
  if (options.rank_weights.empty()) return std::vector<double>(world, 1.0);
  require(static_cast<int>(options.rank_weights.size()) == world, Exit::usage,
          "--rank-weights has {} weights, but there are {} ranks; give one for each", options.rank_weights.size(),
          world);
  return options.rank_weights;
}

// Evaluation and recomputation take batches of what fits one micro-batch of training.
Samplers make_samplers(const Options& o, const Datasets& data, bool norms, int rank,
                       const std::vector<double>& weights) {
  const int64_t batch = (o.batch_size + o.accumulate - 1) / o.accumulate;
  const auto sequential = [&](int64_t samples) {
    return DistributedSampler(samples, batch, Order::sequential, o.seed, rank, weights);
  };
  Samplers samplers{.train = DistributedSampler(data.train->size(), o.batch_size, Order::shuffled, o.seed, rank,
                                                weights, static_cast<int>(o.accumulate)),
                    .test = sequential(data.test->size()),
                    .statistics = {}};
  if (norms && o.recompute_bn.value_or(true))
    samplers.statistics = sequential(std::min(StatisticsRecomputation::kSamples, data.train->size()));
  return samplers;
}

ReplicaConfig replica_config(const Options& o, const Samplers& samplers) {
  return {.batch_sizes = samplers.batch_sizes(),
          .caps = {o.bucket_cap_mb, o.first_bucket_mb},
          .optimizer = o.optimizer,
          .all_decay = !o.no_decay_bias_norm,
          .clip_norm = o.clip_grad_norm,
          .zero = o.zero > 0,
          .grad_dtype = o.grad_dtype,
          .sync_norm = o.sync_bn,
          .label_smoothing = static_cast<float>(o.label_smoothing),
          .seed = o.seed};
}

TrainConfig train_config(const Options& o) {
  return {.epochs = o.epochs,
          .max_steps = o.max_steps,
          .eval_every = o.eval_every,
          .schedule = o.schedule,
          .step = {.micro_batches = static_cast<int>(o.accumulate), .skip_limit = o.skip_bad_steps},
          .device_data_bytes = static_cast<size_t>(o.device_data_mb) << 20};
}

Network make_network(const Options& o, const Dataset& data) {
  Network network = make_model(o.model, data.image_shape(), data.classes());
  const bool about_norms = o.sync_bn || o.recompute_bn;
  require(!about_norms || !norm_states_of(network).empty(), Exit::usage, "--{}: {} has no batch norms",
          o.sync_bn ? "sync-bn" : "bn-stats", o.model);
  return network;
}

void print_order(const DistributedSampler& sampler, int64_t epoch) {
  for (int64_t i = 0; i < sampler.samples(); ++i) fmt::print("{}\n", sampler.sample(epoch - 1, i));
}

}  // namespace

void run(MpiSession& session, int argc, char** argv) {
  const Log log(session.rank());
  std::optional<std::string> answer;
  const Options options = together(session, [&] { return parse_options(argc, argv, answer); });
  if (answer) {
    if (session.rank() == 0) fmt::print("{}", *answer);
    return;
  }
  const auto world = session.world(options.allreduce);
  const int rank = session.rank();

  check_same_on_all_ranks(hash_of(options.effective_config), "configuration", *world);
  const auto rank_weights = together(session, [&] { return weights_of_ranks(options, session.size()); });
  const Datasets data = together(session, [&] { return load_data(options); });
  check_same_on_all_ranks(hash_of(*data.train) ^ hash_of(*data.test) << 1, "data set", *world);
  const Network network = together(session, [&] { return make_network(options, *data.train); });
  const Samplers samplers = make_samplers(options, data, !norm_states_of(network).empty(), rank, rank_weights);
  if (options.print_order > 0) {
    if (rank == 0) print_order(samplers.train, options.print_order);
    return;
  }

  const Backend backend = make_backend(options, session);
  const Threads threads =
      backend.device->is_host() ? choose_threads(options.threads, *world, session.host()) : Threads{};
  if (!threads.warning.empty()) log.warn("{}", threads.warning);
  const auto ops = together(session, [&] { return make_ops(options, backend, *world, threads.count); });
  const auto own_transport = make_transport(options, backend, session, *world);
  Communicator& transport = own_transport ? *own_transport : *world;
  const auto owned_replica = or_end_job(session, [&] {
    return std::make_unique<Replica>(network, replica_config(options, samplers), *backend.device, *ops, transport);
  });
  Replica& replica = *owned_replica;
  if (options.plan) {
    log.info("{}", or_end_job(session, [&] { return plan_report(replica, samplers.train); }));
    return;
  }

  ModelState initial = together(session, [&] {
    if (!options.init_from.empty()) return load_state_dict(options.init_from, replica.parameters, replica.norms);
    ModelState state{.weights = std::vector<float>(replica.plan.gradients), .statistics = initial_state(replica.norms)};
    initialize(state.weights, replica.parameters, options.init, options.seed);
    return state;
  });
  initial.weights.resize(replica.plan.gradients);
  replica.load(initial.weights);
  replica.load_state(initial.statistics);
  replica.check_replicas();

  const auto folder = together(session, [&] {
    return rank == 0 ? make_output_folder(options.output_dir, options.effective_config) : std::filesystem::path();
  });
  const std::string ranks = describe_ranks(options, backend, threads.count, session);
  log.info("{}", banner(options, replica, data, samplers, ranks, folder));

  const bool bar = options.progress == "bar" || (options.progress == "auto" && output_is_terminal());
  auto reporter = together(session, [&] {
    return std::make_unique<Reporter>(ReporterConfig{.speaks = rank == 0,
                                                     .terminal = bar,
                                                     .print_freq = options.print_freq,
                                                     .epochs = options.epochs,
                                                     .steps_per_epoch = samplers.train.steps_per_epoch(),
                                                     .metrics = folder / "metrics.jsonl"});
  });
  const auto limit = std::chrono::milliseconds(std::llround(std::ceil(1e3 * options.step_timeout)));
  TrainConfig config = train_config(options);
  config.step_limit = limit.count() > 0 ? limit + speaking_turn(rank) : limit;
  config.give_up = [&](const std::string& text) {
    end_job(session, fmt::format("on {}: {}", session.host(), text), Exit::communication);
  };
  const TrainReport report = or_end_job(session, [&] { return train(config, replica, data, samplers, *reporter); });
  reporter->close();
  reporter.reset();
  write_results(options, report, replica, samplers.train, initial.updates, log, folder);
}

}  // namespace ddp
