#include "app/run/open_job.h"

#include "app/inputs/label_weights.h"
#include "app/run/injection.h"
#include "app/run/make_network.h"
#include "app/run/resume_point.h"
#include "app/run/run_groups.h"
#include "app/run/samplers.h"
#include "app/run/share_model.h"
#include "app/run/token_options.h"
#include "comm/broadcast_host.h"
#include "core/error.h"
#include "core/read_file.h"
#include "ddp/hash.h"
#include "ddp/replica_check.h"
#include "health/abort.h"
#include "health/run_on_all_ranks.h"
#include "health/watchdog_limits.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

// Refuses what would have no effect without validation data. A default is no wish.
void refuse_options_of_evaluations(const Options& options) {
  const auto refuse = [](bool given, const char* option) {
    require(!given, Exit::usage,
            "{} needs validation data: the data set has none; leave it out, or give --val-split, such as 0.1", option);
  };
  refuse(options.train.eval_every > TrainConfig().eval_every, "--eval-every");
  refuse(options.train.keep_best, "--keep-best");
  refuse(options.train.early_stop > 0, "--early-stop");
  refuse(options.train.schedule.kind == ScheduleDesc::Kind::plateau, "--lr-scheduler plateau");
  refuse(options.network.recompute_bn.has_value(), "--bn-stats");
}

// None: the network of the training. Pictures alone may have another size in validation.
std::optional<Network> network_of_validation(const Options& options, const LoadedData& data, const Network& network) {
  if (data.transforms.empty()) return std::nullopt;
  const ImageShape image{.h = data.validation.crop.h, .w = data.validation.crop.w, .c = network.input().c};
  return network_for(options.network, network, image, data.data.train->classes());
}

// Rank 0 reads the file. Collective.
std::vector<float> class_weights_of(const std::string& option, const LoadedData& data, MpiSession& session,
                                    Communicator& world) {
  if (option.empty()) return {};
  const bool balanced = option == kBalancedLabels;
  std::string text = run_on_all_ranks(session, [&] {
    return balanced || session.rank() != 0 ? std::string() : read_whole_file(option, kMostWeightBytes);
  });
  broadcast_host(world, text);
  const Dataset& train = *data.data.train;
  return run_on_all_ranks(session, [&] {
    return balanced ? balanced_weights(train, data.class_names)
                    : parse_label_weights(option, text, data.class_names, train.classes());
  });
}

ResumedPictures pictures_of(const ResumePoint& resume_point) {
  const RunState& state = resume_point.state;
  return {.pictures = state.pictures ? &*state.pictures : nullptr,
          .next_step = state.step + 1,
          .run_folder = resume_point.resuming ? resume_point.run_folder : ""};
}

// Collective.
LoadedData data_of(const Options& options, const ResumePoint& resume_point, MpiSession& session, Communicator& world,
                   PhaseTracker& phases, const Log& log) {
  LoadedData data =
      load_data(options.data, options.seed, session, world, log, reading_phase(phases), pictures_of(resume_point));
  run_on_all_ranks(session, [&] {
    if (data.data.train->sequence_length() > 0) require_options_for_tokens(options);
  });
  return data;
}

void go_on_with_shares(const RunState& saved, Samplers& samplers, const Log& log) {
  if (!saved.balance || saved.balance->shares.empty()) return;
  const std::vector<int64_t>& shares = saved.balance->shares;
  if (fit(*saved.balance, samplers.train)) return samplers.set_weights({shares.begin(), shares.end()});
  log.info("--rank-weights auto begins with equal shards: those of the checkpoint are for {} ranks and {} samples",
           shares.size(), std::reduce(shares.begin(), shares.end()));
}

// Shards change after an epoch that is not the last of the run.
void say_if_shards_stay(const Options& options, const RunState& saved, const Samplers& samplers, const Log& log) {
  if (!options.batch.balanced) return;
  const DistributedSampler& train = samplers.train;
  const int64_t per_epoch = std::max<int64_t>(train.steps_per_epoch(), 1), total = total_steps(options.train, train);
  const char* const reason = !samplers.balanced ? "one rank computes every sample"
                             : train.largest_micro_batch() < std::ssize(train.weights())
                                 ? "there are more ranks than samples in a micro-batch"
                             : saved.step >= (total - 1) / per_epoch * per_epoch
                                 ? "shards change between epochs, and this run does not begin another one"
                                 : nullptr;
  if (reason) log.info("--rank-weights auto changes no shard in this run: {}", reason);
}

}  // namespace

std::unique_ptr<Watchdog> start_watchdog(std::optional<double> step_timeout, MpiSession& session,
                                         PhaseTracker& phases) {
  return std::make_unique<Watchdog>(limits_of(step_timeout, session.rank()), phases, [&](const std::string& text) {
    abort_job(session, fmt::format("on {}: {}", session.host(), text), Exit::communication);
  });
}

Job open_job(const Options& given, const ResumePoint& resume_point, MpiSession& session, PhaseTracker& phases,
             const Log& log) {
  Options options = given;
  auto watchdog = start_watchdog(options.step_timeout, session, phases);
  auto world = session.world(options.transport.allreduce);
  check_same_on_all_ranks(hash_of(options.effective_config), "configuration", *world);

  share_model(options.network, session);
  options.data.default_sequence_length = default_sequence_length(options.network, options.data.vocabulary_size);
  std::vector<double> rank_weights;
  std::optional<FaultInjection> injection;
  run_on_all_ranks(session, [&] {
    rank_weights = weights_of_ranks(options.batch, session.size());
    injection = injection_of(options.inject, session.size());
  });
  LoadedData data = data_of(options, resume_point, session, *world, phases, log);
  std::vector<float> class_weights = class_weights_of(options.label_weights, data, session, *world);
  Network network = run_on_all_ranks(session, [&] {
    if (!data.data.test) refuse_options_of_evaluations(options);
    Network made = make_network(options.network, options.replica.sync_bn, *data.data.train);
    groups_of_run(options, parameters_of(made));
    return made;
  });
  auto validation_network = run_on_all_ranks(session, [&] { return network_of_validation(options, data, network); });
  const bool statistics =
      options.network.recompute_bn.value_or(true) && trained_state_count(batch_norm_states_of(network)) > 0;
  Samplers samplers = make_samplers(options.batch, options.train.step.micro_batches, options.seed, statistics,
                                    data.data, session.rank(), rank_weights);
  if (samplers.balanced) go_on_with_shares(resume_point.state, samplers, log);
  say_if_shards_stay(options, resume_point.state, samplers, log);
  return {.options = std::move(options),
          .session = session,
          .phases = phases,
          .log = log,
          .watchdog = std::move(watchdog),
          .world = std::move(world),
          .injection = injection,
          .data = std::move(data),
          .class_weights = std::move(class_weights),
          .network = std::move(network),
          .validation_network = std::move(validation_network),
          .samplers = std::move(samplers)};
}

}  // namespace ddp
