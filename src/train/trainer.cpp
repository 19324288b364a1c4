#include "train/trainer.h"

#include "core/error.h"
#include "core/stopwatch.h"
#include "ddp/balance.h"
#include "ddp/hash.h"
#include "ddp/replica_check.h"
#include "train/broken_data.h"
#include "train/evaluation/judgement.h"
#include "train/evaluation/validation.h"
#include "train/observers/speed_meter.h"
#include "train/run_steps.h"
#include "train/saving/saver.h"
#include "train/step/device_dataset.h"
#include "train/step/fences.h"
#include "train/step/prefetcher.h"
#include "train/step/step.h"
#include "train/step/training_placement.h"
#include "train/step/zero_gradients.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ddp {
namespace {

class Trainer {
 public:
  Trainer(const TrainConfig& config, Replica& replica, const Datasets& data, const Samplers& samplers,
          const Observers& observers);
  TrainReport run();

 private:
  StepConfig step_config();
  Request request() const;

  void train_to_end();
  bool ends_early() const { return stops_early(config_.early_stop, state_); }
  void record(const StepResult& result);
  bool pauses_after(int64_t step) const;
  void pause();
  void report_gradients();
  std::optional<StepSpeed> report_speed(int64_t epoch);
  Shares shares_by(const std::vector<double>& weights) const;  // of full micro-batches
  bool balance(const StepSpeed& speed, int64_t epoch);
  void cut_shards(const std::vector<double>& weights);
  void begin_to_read();
  void evaluate_at_start();
  void evaluate();
  void save(bool best);
  void save_or_put_off();
  void save_final();
  void trace(bool run_ends = false);
  void accumulate_train_time();  // restarts the stopwatch too

  const TrainConfig& config_;
  Replica& replica_;
  const Datasets& data_;
  Samplers samplers_;  // the weights change if they are balanced
  const DistributedSampler& sampler_;
  const Observers& observers_;
  PhaseTracker& phases_;
  const RunSteps steps_;
  const Judgement judgement_;

  DeviceDataset train_data_;
  std::optional<Validation> validation_;  // none without test data
  Step step_;
  std::optional<Prefetcher> prefetcher_;  // a member, so that an error is reported before it waits for the device

  TrainReport report_;
  RunState& state_;                    // report_.state
  Request requested_ = Request::none;  // largest request of the tickets since the last pause
  Saver saver_;
  bool save_put_off_ = false;
  SpeedMeter speed_;
  ComputeTimes compute_times_;
  bool gradients_reported_ = false;
  BrokenData broken_;
  bool unread_ = false;  // a step lacks a sample, and the run ends
  Stopwatch training_;
};

DataPlacement placement_of(const TrainConfig& config, const Replica& replica) {
  DataPlacement placement = of_training(config.data_placement, replica);
  placement.exclusions = config.train_exclusions;
  return placement;
}

Trainer::Trainer(const TrainConfig& config, Replica& replica, const Datasets& data, const Samplers& samplers,
                 const Observers& observers)
    : config_(config),
      replica_(replica),
      data_(data),
      samplers_(samplers),
      sampler_(samplers_.train),
      observers_(observers),
      phases_(observers.phases),
      steps_(config, sampler_),
      judgement_{.schedule = config.schedule, .early_stop = config.early_stop},
      train_data_(replica.device, *data.train, samplers_.largest_shard(sampler_), placement_of(config, replica)),
      step_(replica, step_config(), &phases_, observers.trace),
      state_(report_.state),
      saver_(replica, observers.reporter, phases_, observers.writer),
      speed_(replica, sampler_),
      compute_times_(sampler_.global_batch_size(0)),
      broken_(config.train_exclusions, config.test_exclusions, replica, observers.reporter, phases_) {
  if (data.test) validation_.emplace(config, replica, data, samplers_);
  DDP_EXPECT(validation_ || config.eval_every == 0);
  state_ = config.start;
  if (config.train_exclusions && config.train_exclusions->are_pictures() && !state_.pictures) state_.pictures.emplace();
  if (config.start_is_saved) {
    saver_.set_saved(state_, config.checkpoint);
  } else {
    state_.best_accuracy = -1;  // `best` refers to the checkpoints and evaluations of this folder
    state_.best_epoch = 0;
    state_.best_loss.reset();
  }
  if (!samplers_.balanced)
    state_.balance.reset();
  else if (!state_.balance)
    state_.balance.emplace();
  begin_judging(judgement_, state_);
  report_.sequence_length = data.train->sequence_length();
  report_.updates = config.updates;
}

StepConfig Trainer::step_config() {
  StepConfig step = config_.step;
  step.done = config_.start.step;
  step.skipped_in_a_row = config_.start.skipped_in_a_row;
  step.request = [this] { return request(); };
  return step;
}

Request Trainer::request() const {
  if (config_.stop_requested()) return Request::stop;
  const double seconds = config_.save_every.seconds;
  const bool late = seconds > 0 && saver_.seconds() >= seconds, may_save_now = save_put_off_ && !saver_.busy();
  if (replica_.communicator.rank() == 0 && (late || may_save_now)) return Request::save;
  return broken_.found() ? Request::exclude : Request::none;
}

TrainReport Trainer::run() {
  try {
    report_.stopped = replica_.communicator.any(config_.stop_requested());
    if (!report_.stopped) evaluate_at_start();
    if (!report_.stopped) train_to_end();
    if (report_.stopped || !config_.save_every.never())
      save_final();
    else
      saver_.finish(state_.step);  // a save of the best may be in progress
    trace(true);
    if (broken_.lost()) broken_.end(state_, saver_.saved(state_));
    if (!report_.stopped && report_.evaluation && !report_.evaluation->of_tokens()) {
      phases_.enter(Phase::evaluation, state_.step);
      report_.classes.emplace(validation_->count_classes());
    }
  } catch (...) {
    phases_.enter(Phase::shutdown, state_.step);  // the saver's destructor waits for the writer
    observers_.on_error();
    throw;
  }
  phases_.enter(Phase::shutdown, state_.step);
  report_.checkpoint = saver_.path();
  report_.checkpoint_step = saver_.step();
  report_.speed = speed_.over_the_run();
  if (report_.speed) report_.speed->balanced = samplers_.balanced;
  report_.rank_weights = sampler_.weights();
  report_.compute_ms = compute_times_.ms();
  report_.data_ms = compute_times_.mean_data_ms();
  return report_;
}

// Saves a second time if the save of the last step has failed: the disk may have room by then.
void Trainer::save_final() {
  for (int attempt = 0; attempt < 2; ++attempt) {
    save(false);
    if (saver_.finish(state_.step)) return;
  }
}

// Up to two steps are in flight between pauses, none in a pause.
void Trainer::train_to_end() {
  if (state_.step > steps_.total() || ends_early())
    return;  // resumed with fewer --epochs or --max-steps, or at its early end
  begin_to_read();
  const NextBatch next_batch = config_.batch_source([&]() -> const DeviceBatch& { return prefetcher_->next(); });
  training_ = {};
  trace();
  for (int64_t k = state_.step + 1; k <= steps_.total() && !report_.stopped && !ends_early(); ++k) {
    const auto result = step_.run(next_batch, steps_.lr(k, state_), replica_.average ? steps_.average_rate(k) : 0);
    if (result) record(*result);
    if (pauses_after(k)) pause();
  }
  prefetcher_.reset();
  accumulate_train_time();
}

void Trainer::begin_to_read() {
  prefetcher_.emplace(train_data_, sampler_, state_.step, steps_.total(), kTrainingFences);
}

void Trainer::record(const StepResult& result) {
  unread_ = unread_ || result.unread;
  if (unread_) return;  // no later step has changed the weights
  observers_.reporter.step(result);
  speed_.add(result);
  compute_times_.add(result);
  requested_ = std::max(requested_, result.request);
  ++state_.step;
  state_.epoch = steps_.epoch_of(state_.step + 1) - 1;
  state_.cursor = steps_.samples_in_epoch(state_.step);
  state_.samples += result.samples;
  state_.bn_stats_samples = 0;
  report_.samples += result.samples;
  if (state_.pictures) {
    int64_t& excluded = state_.pictures->excluded_in_epoch;
    excluded = (steps_.in_epoch(state_.step) == steps_.in_epoch(1) ? 0 : excluded) + result.excluded;
  }
  if (result.skipped.empty())
    ++report_.updates;
  else
    ++state_.skipped;
}

bool Trainer::pauses_after(int64_t step) const {
  return unread_ || requested_ != Request::none || steps_.end_run(step) || steps_.end_epoch(step) ||
         steps_.compare_replicas(step) || config_.save_every.at_step(step) ||
         (observers_.trace && observers_.trace->pauses_after(step));
}

void Trainer::pause() {
  for (const StepResult& result : step_.drain()) record(result);
  state_.skipped_in_a_row = step_.skipped_in_a_row();
  const Request requested = std::exchange(requested_, Request::none);
  report_.stopped = !broken_.agree(state_, false) || requested == Request::stop;
  if (unread_) return;

  const int64_t step = state_.step, epoch = steps_.epoch_of(step);
  const bool run_ends = steps_.end_run(step), epoch_ends = steps_.end_epoch(step);
  if (epoch_ends || run_ends || steps_.compare_replicas(step)) {
    phases_.enter(Phase::replicas, step);
    replica_.check_replicas();
  }
  report_gradients();
  const int64_t excluded = state_.pictures ? state_.pictures->excluded_in_epoch : 0;
  if (epoch_ends && excluded > 0)
    observers_.reporter.exclusions_of_epoch(epoch, step, sampler_.samples() - excluded, excluded);
  std::optional<StepSpeed> speed;
  if ((epoch_ends || run_ends) && !report_.stopped) speed = report_speed(epoch);
  const bool moved = samplers_.balanced && speed && epoch_ends && !run_ends && balance(*speed, epoch);
  if (steps_.evaluate(step)) {
    state_.evaluation_due = true;
    if (!report_.stopped) evaluate();
  }
  if (moved && !ends_early())
    observers_.reporter.balanced(epoch + 1, step, shares_by(sampler_.weights()), state_.balance->speeds);
  if (requested == Request::save || config_.save_every.at_step(step))
    save(false);
  else if (epoch_ends && config_.save_every.at_epoch(epoch))
    save_or_put_off();
  saver_.report_finished();
  trace();
}

void Trainer::trace(bool run_ends) {
  if (!observers_.trace) return;
  phases_.enter(Phase::saving, state_.step);  // rank 0 writes the spans of all ranks
  if (const auto timeline = observers_.trace->paused(state_.step, run_ends)) observers_.reporter.timeline(*timeline);
}

// Once. The measurement of the speed overwrites the gradients.
void Trainer::report_gradients() {
  constexpr int64_t kSteps = 10;
  if (gradients_reported_ || state_.step - config_.start.step < kSteps) return;
  if (!config_.last_step_learns && steps_.end_epoch(state_.step)) return;
  gradients_reported_ = true;
  if (replica_.communicator.rank() == 0) observers_.reporter.gradients(zero_gradients_of(replica_));
}

// Not part of the training time.
std::optional<StepSpeed> Trainer::report_speed(int64_t epoch) {
  accumulate_train_time();
  const auto enter = [&] { phases_.enter(Phase::measuring, state_.step); };
  auto speed = speed_.take(enter);
  if (speed) observers_.reporter.speed(epoch, state_.step, *speed);
  training_ = {};
  return speed;
}

Shares Trainer::shares_by(const std::vector<double>& weights) const {
  Shares shares;
  for (int rank = 0; rank < replica_.communicator.size(); ++rank)
    shares.push_back(shard_range(sampler_.largest_micro_batch(), rank, weights).size());
  return shares;
}

// Whether the shards change. All ranks have the same measurement, so they decide the same. An evaluation that a resumed
// run makes up for has the shards of its state, so the evaluation of this epoch has the new ones.
bool Trainer::balance(const StepSpeed& speed, int64_t epoch) {
  phases_.enter(Phase::measuring, state_.step);
  const int world = replica_.communicator.size();
  std::vector<double> speeds;
  for (int rank = 0; rank < world; ++rank) speeds.push_back(speed.samples_per_second(rank));
  if (config_.replace_speeds) config_.replace_speeds(epoch, speeds);

  BalanceState& state = *state_.balance;
  const std::vector<double> equal(world, 1.0);
  const Shares equal_shares = shares_by(equal);
  auto next = balanced(shares_by(sampler_.weights()), equal_shares, speeds, state.speeds);
  state.speeds = are_speeds(speeds, world) ? speeds : std::vector<double>();
  if (next && !config_.may_have_weights({next->begin(), next->end()})) next.reset();
  Hash hash;
  for (const int64_t share : next.value_or(Shares())) hash.add(static_cast<uint64_t>(share));
  check_same_on_all_ranks(hash.value(), "shards", replica_.communicator);
  if (!next) return false;
  const bool are_equal = *next == equal_shares;
  state.shares = are_equal ? Shares() : *next;
  cut_shards(are_equal ? equal : std::vector<double>(next->begin(), next->end()));
  return true;
}

// For the steps and evaluations from now on. No step is in flight.
void Trainer::cut_shards(const std::vector<double>& weights) {
  prefetcher_.reset();
  validation_.reset();
  step_.drop_graphs();
  samplers_.set_weights(weights);
  phases_.enter(Phase::start_up, state_.step);  // a plan has as much time as in the start
  if (config_.plan_models) config_.plan_models(samplers_);
  if (data_.test) validation_.emplace(config_, replica_, data_, samplers_);
  speed_.shards_changed();
  compute_times_ = ComputeTimes(sampler_.global_batch_size(0));
  begin_to_read();
  training_ = {};
}

// A run that had ended is evaluated again: a checkpoint does not have the figures of the classes. The checkpoint of
// this step is saved again if it does not have the statistics of this evaluation.
void Trainer::evaluate_at_start() {
  if (has_ended(config_, steps_.total()) ? config_.eval_every == 0 : !state_.evaluation_due) return;
  evaluate();
  if (!report_.stopped && !config_.save_every.never()) save(false);
}

void Trainer::evaluate() {
  accumulate_train_time();
  const Stopwatch watch;
  int64_t batches = 0;
  const auto evaluation = validation_->run([&] {
    phases_.enter(Phase::evaluation, state_.step);
    return ++batches % Evaluator::kStopCheckInterval != 0 || !replica_.communicator.any(config_.stop_requested());
  });
  const bool goes_on = broken_.agree(state_, true, !evaluation || evaluation->samples > 0);
  if (evaluation && goes_on) {
    report_.evaluation = evaluation;
    const int64_t epoch = steps_.epoch_of(state_.step);
    const bool regular = state_.evaluation_due && steps_.evaluate_regularly(state_.step);
    const bool best = judge(judgement_, *evaluation, {.epoch = epoch, .regular = regular}, state_);
    observers_.reporter.evaluation(epoch, state_.step, *evaluation, watch.seconds());
    if (ends_early() && state_.step < steps_.total()) {
      report_.early_stop = state_.early_stop;
      observers_.reporter.early_stop(epoch, state_.step, *state_.early_stop);
    }
    training_ = {};
    if (best && config_.keep_best) save(true);
  } else {
    report_.stopped = true;
    training_ = {};
  }
}

// While the writer is busy, training goes on. Rank 0 asks for the save in a ticket when the writer is free; the end of
// the run makes up for a save that is still put off.
void Trainer::save_or_put_off() {
  if (saver_.saved(state_)) return;  // as the best, by the writer that is busy
  save_put_off_ = replica_.communicator.any(saver_.busy());
  if (!save_put_off_) save(false);
}

void Trainer::save(bool best) {
  save_put_off_ = false;
  if (saver_.saved(state_) && !best) return;
  accumulate_train_time();
  saver_.save(state_, report_.updates, best);
}

void Trainer::accumulate_train_time() {
  const double seconds = std::exchange(training_, {}).seconds();
  report_.seconds += seconds;
  state_.train_seconds += seconds;
}

}  // namespace

void Samplers::set_weights(const std::vector<double>& weights) {
  train.set_weights(weights);
  if (test) test->set_weights(weights);
  if (statistics) statistics->set_weights(weights);
}

int64_t Samplers::largest_shard(const DistributedSampler& sampler) const {
  if (!balanced) return sampler.largest_shard();
  return std::max<int64_t>(
      1, largest_share(sampler.largest_micro_batch(), static_cast<int>(std::ssize(sampler.weights()))));
}

std::vector<int64_t> Samplers::batch_sizes() const {
  std::set<int64_t> sizes;
  for (const auto* sampler : {&train, test ? &*test : nullptr, statistics ? &*statistics : nullptr}) {
    if (!sampler) continue;
    for (const int64_t size : sampler->local_batch_sizes()) sizes.insert(size);
    if (balanced) sizes.insert(largest_shard(*sampler));
  }
  if (sizes.empty()) sizes.insert(1);  // a rank without samples still builds a model
  return {sizes.begin(), sizes.end()};
}

int64_t total_steps(const TrainConfig& config, const DistributedSampler& sampler) {
  const int64_t all = config.epochs * sampler.steps_per_epoch();
  return config.max_steps > 0 ? std::min(all, config.max_steps) : all;
}

bool has_ended(const TrainConfig& config, int64_t total) {
  return config.start.step > 0 && (config.start.step >= total || stops_early(config.early_stop, config.start));
}

TrainReport train(const TrainConfig& config, Replica& replica, const Datasets& data, const Samplers& samplers,
                  const Observers& observers) {
  return Trainer(config, replica, data, samplers, observers).run();
}

}  // namespace ddp
