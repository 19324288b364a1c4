#include "app/run/resume_point.h"

#include "app/inputs/label_weights.h"
#include "app/machine/gpus.h"
#include "app/options/resume.h"
#include "app/run/begin_from.h"
#include "app/run/changes_file.h"
#include "app/run/kept_buckets.h"
#include "app/run/share_model.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "comm/broadcast_host.h"
#include "core/printable.h"
#include "health/run_on_all_ranks.h"
#include "nn/init.h"
#include "train/saving/snapshot.h"
#include "train/step/residual.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPixelsEntry = "mean and std";  // entry of the run state

// The changes that the run has made and not yet saved. An older checkpoint is resumed as it was.
std::vector<OptionChange> changes_since(const FoundCheckpoint& found) {
  if (found.run_folder.empty() || !is_newest(found.path)) return {};
  std::vector<OptionChange> changes = read_changes(found.run_folder);
  std::erase_if(changes, [&](const OptionChange& change) { return change.step < found.state.step; });
  return changes;
}

// Searches again under the lock, because an earlier run may have saved a checkpoint before it released the lock.
ResumePoint find_on_rank_0(const Options& given, const Log& log) {
  const bool automatic = given.checkpoint.resume == "auto", locks = !given.action.print_order;
  const fs::path wanted = automatic ? given.output.dir : given.checkpoint.resume;
  ResumePoint resume_point;
  std::vector<std::string> skipped;
  std::optional<FoundCheckpoint> found;
  std::error_code error;
  const bool exists = fs::exists(wanted, error);
  require(!automatic || !error, Exit::output, "cannot use the output folder {}: {}; choose another --output-dir",
          printable(wanted.native()), error.message());
  require(!automatic || !exists || fs::is_directory(wanted, error), Exit::output,
          "{} is not a folder; choose another --output-dir", printable(wanted.native()));
  if (automatic && exists && locks) resume_point.lock.emplace(wanted, FolderLock::kWaitSeconds);
  if (!automatic || exists) found = find_checkpoint(wanted, skipped);
  if (found && !automatic && locks && !found->run_folder.empty()) {
    resume_point.lock.emplace(found->run_folder, FolderLock::kWaitSeconds);
    skipped.clear();
    found = find_checkpoint(wanted, skipped);
  }
  for (const std::string& text : skipped) log.warn("{}", text);
  if (found) {
    resume_point.state = found->state;
    resume_point.checkpoint = found->path;
    resume_point.run_folder = found->run_folder;
    resume_point.changes = changes_since(*found);
    return resume_point;
  }
  require(automatic, Exit::data, "{} has no checkpoint to resume from", wanted.string());
  log.info("{} has no checkpoint yet: a new run begins", wanted.string());
  resume_point.run_folder = wanted;
  return resume_point;
}

bool same_folder(const fs::path& a, const fs::path& b) {
  std::error_code error, other;
  return fs::weakly_canonical(a, error) == fs::weakly_canonical(b, other) && !error && !other;
}

ModelState initial_model(const Job& job, const Replica& replica) {
  const NetworkConfig& config = job.options.network;
  if (!config.init_from.empty()) return initial_weights_from_file(job, replica);
  ModelState state{.weights = std::vector<float>(flat_count(replica.parameters)),
                   .statistics = initial_state(replica.batch_norms)};
  initialize(state.weights, replica.parameters, config.init, job.options.seed);
  return state;
}

// --change may give sgd a momentum buffer, which starts at 0 as PyTorch's does, or take it away.
Snapshot read_for(const Replica& replica, const ResumePoint& resume_point) {
  const std::vector<std::string> names = optimizer_state_names(replica);
  const auto saved = static_cast<size_t>(resume_point.optimizer_states);
  Snapshot snapshot = read_checkpoint(
      resume_point.checkpoint, {replica.parameters, replica.batch_norms},
      saved == names.size() ? names : std::vector<std::string>(saved, "momentum_buffer"), replica.average != nullptr);
  if (saved > names.size()) snapshot.optimizer.resize(names.size());
  for (size_t k = saved; k < names.size(); ++k)
    snapshot.optimizer.push_back({names[k], std::vector<float>(flat_count(trained_of(replica.parameters)))});
  return snapshot;
}

// An option that does not fit the kind of device in use takes its default, unless it is given now. Collective.
ResumedOptions resumed_on_device(const Options& given, const RunState& saved, std::span<const OptionChange> pending,
                                 MpiSession& session) {
  const auto without = [&](const std::set<std::string>& left_out) {
    return run_on_all_ranks(session, [&] { return resumed_options(given, saved, pending, session.size(), left_out); });
  };
  ResumedOptions resumed = without({});
  const Options& options = resumed.options;
  const auto unfit_on = [&](DeviceKind kind) {
    std::set<std::string> names;
    for (const UnfitOption& unfit : unfit_options(options.device, options.transport, kind))
      if (!options.given.contains(unfit.name)) names.insert(unfit.name);
    return names;
  };
  const bool matters = !unfit_on(DeviceKind::cpu).empty() || !unfit_on(DeviceKind::cuda).empty();
  const auto ranks = session.gather(matters && !given.action.print_order ? "yes" : "");
  if (std::ranges::count(ranks, "yes") == 0) return resumed;
  DeviceKind kind = DeviceKind::automatic;
  try {
    kind = device_in_use(options.device.kind, session);
  } catch (const CollectiveError&) {  // make_backend() will name the fault
    return resumed;
  }
  return without(unfit_on(kind));
}

void broadcast(Communicator& world, ModelState& model) {
  broadcast_host(world, model.weights);
  broadcast_host(world, model.statistics);
  broadcast_host(world, {&model.updates, 1});
}

void broadcast(Communicator& world, Snapshot& snapshot) {
  broadcast(world, snapshot.model);
  broadcast_host(world, snapshot.running_stats);
  if (snapshot.average) broadcast(world, *snapshot.average);
  for (OptimizerState& state : snapshot.optimizer) broadcast_host(world, state.values);
}

// One host's after the other, as they may be large. `residuals`: on rank 0.
void restore_residuals(Communicator& world, const std::vector<std::vector<float>>& residuals, Replica& replica) {
  auto hosts = static_cast<int64_t>(residuals.size());
  broadcast_host(world, {&hosts, 1});
  load_residuals(replica, static_cast<int>(hosts), [&](int host) {
    std::vector<float> values;
    if (world.rank() == 0) values = residuals[host];
    broadcast_host(world, values);
    return values;
  });
}

}  // namespace

OutputFolder open_folder(const std::string& dir, bool resume_given, const std::string& config,
                         ResumePoint& resume_point, int rank) {
  if (rank != 0) return {};
  using Content = OutputFolder::Content;
  const fs::path& run_folder = resume_point.run_folder;
  const bool elsewhere = run_folder.empty() || (!dir.empty() && !same_folder(dir, run_folder));
  auto lock = std::exchange(resume_point.lock, std::nullopt);
  if (elsewhere) return {dir, resume_given ? Content::no_results : Content::none, config};
  if (resume_point.checkpoint.empty()) return {dir, Content::no_results, config, std::move(lock)};
  require_newest(resume_point.checkpoint);
  const std::string folder = dir.empty() ? run_folder.string() : dir;
  return {folder, Content::same_run, config, std::move(lock)};
}

bool is_same_run(const fs::path& folder, const ResumePoint& resume_point) {
  return !resume_point.checkpoint.empty() && same_folder(folder, resume_point.run_folder);
}

RunState run_fingerprint(const Options& o, const LoadedData& data, const PixelNormalization& pixels,
                         const Backend& backend, int threads, const Replica& r, const AutotuneCache& autotune,
                         const std::optional<StepCosts>& costs) {
  const auto& [train, test] = data.data;
  RunState state;
  state.affects_results = results_options(o);
  state.affects_results["--dataset"] = data.kind;
  state.affects_results["data set"] = fmt::format("{} and {} {} ({:016x})", train->size(), test ? test->size() : 0,
                                                  describe_samples(*train), data.fingerprint);
  if (const std::string input = data.input(); !input.empty()) state.affects_results["input"] = input;
  if (const std::string numbers = pixels.text(); !numbers.empty()) state.affects_results[kPixelsEntry] = numbers;
  if (!r.class_weights.empty())
    state.affects_results["label weights"] = describe_weights(o.label_weights, r.class_weights);
  state.affects_rounding = rounding_options(o);
  state.affects_rounding["world size"] = fmt::format("{}", r.communicator.size());
  state.affects_rounding.insert(backend.identity.begin(), backend.identity.end());
  if (const std::string order = r.communicator.order_of_terms(); !order.empty())
    state.affects_rounding["order of sums"] = order;
  state.affects_rounding["threads of a rank"] = fmt::format("{}", threads);
  state.affects_rounding["bucket plan"] = fmt::format("{:016x}", r.plan.hash());
  state.autotune["ops"] = autotune.text();
  if (costs) state.autotune[kBucketsEntry] = kept_text(r.plan, *costs);
  state.options = kept_values(o);
  return state;
}

std::optional<PixelNormalization> earlier_pixels(const ResumePoint& resume_point, int64_t channels) {
  const auto& entries = resume_point.state.affects_results;
  const auto found = entries.find(kPixelsEntry);
  if (found == entries.end()) return std::nullopt;
  // Data with other channels are other data: require_same_results() refuses them by name.
  if (std::ranges::count(found->second, ',') != 2 * (channels - 1)) return std::nullopt;
  PixelNormalization earlier = normalization_from(found->second, channels);
  if (!earlier.measured) return std::nullopt;
  return earlier;
}

std::string earlier_autotune(const ResumePoint& resume_point, const Backend& backend, Communicator& world) {
  const RunState& state = resume_point.state;
  const bool same = std::ranges::all_of(backend.identity, [&](const auto& entry) {
    const auto saved = state.affects_rounding.find(entry.first);
    return saved != state.affects_rounding.end() && saved->second == entry.second;
  });
  const auto ops = state.autotune.find("ops");
  std::string autotune = same && ops != state.autotune.end() ? ops->second : "";
  broadcast_host(world, autotune);
  return autotune;
}

ResumePoint find_resume_point(const Options& given, MpiSession& session, const Log& log) {
  if (std::ranges::count(session.gather(given.checkpoint.resume), "") > 0) return {};
  ResumePoint resume_point =
      run_on_all_ranks(session, [&] { return session.rank() == 0 ? find_on_rank_0(given, log) : ResumePoint(); });
  const bool found = !resume_point.checkpoint.empty();
  const std::string state = session.gather(found ? to_json(resume_point.state) : "")[0];
  const std::string changes = session.gather(found ? to_json(resume_point.changes) : "")[0];
  resume_point.resuming = !state.empty();
  if (resume_point.resuming) {
    resume_point.state = run_state_from_json(state, "the state of rank 0");
    resume_point.changes = changes_from_json(changes, "the changes of rank 0");
  }
  return resume_point;
}

Options take_up_options(const Options& given, ResumePoint& resume_point, MpiSession& session, const Log& log) {
  if (!resume_point.resuming) {
    run_on_all_ranks(session, [&] {
      require(given.checkpoint.change.empty(), Exit::usage,
              "--change needs a checkpoint, and {} has none yet; give its options themselves, without --change",
              printable(given.output.dir));
    });
    return with_inherited_input(given, session, log);
  }
  ResumedOptions resumed = resumed_on_device(given, resume_point.state, resume_point.changes, session);
  for (const std::string& line : describe(resumed)) log.info("{}", line);
  resume_point.changes = std::move(resumed.changes);
  resume_point.expected = std::move(resumed.expected);
  resume_point.optimizer_states = resumed.optimizer_states;
  share_resumed_model(resumed.options, resume_point.state, resume_point.checkpoint, session);
  return std::move(resumed.options);
}

Options options_of_doctor(const Options& given, MpiSession& session) {
  const std::string& resume = given.checkpoint.resume;
  if (std::ranges::count(session.gather(resume), "") > 0) return given;
  std::string state, changes;
  fs::path checkpoint;
  try {
    std::vector<std::string> skipped;
    if (session.rank() == 0)
      if (const auto found = find_checkpoint(resume == "auto" ? given.output.dir : resume, skipped)) {
        checkpoint = found->path;
        changes = to_json(changes_since(*found));
        state = to_json(found->state);
      }
  } catch (const std::exception&) {  // the run will name the fault
  }
  state = session.gather(state)[0];
  changes = session.gather(changes)[0];
  if (state.empty()) return given;
  RunState saved;
  std::vector<OptionChange> pending;
  run_on_all_ranks(session, [&] {
    saved = run_state_from_json(state, "the state of rank 0");
    pending = changes_from_json(changes, "the changes of rank 0");
  });
  Options options = resumed_on_device(given, saved, pending, session).options;
  share_resumed_model(options, saved, checkpoint, session);
  return options;
}

int64_t restore_or_initialize(const Job& job, const ResumePoint& resume_point, const RunState& now, Replica& replica) {
  MpiSession& session = job.session;
  if (!resume_point.resuming) {
    const bool from_file = !job.options.network.init_from.empty();
    ModelState initial = run_on_all_ranks(
        session, [&] { return from_file && session.rank() != 0 ? ModelState() : initial_model(job, replica); });
    if (from_file) broadcast(*job.world, initial);
    replica.load(initial.weights);
    replica.load_running_stats(initial.statistics);
    replica.frozen_updates = std::move(initial.frozen_updates);
    return initial.updates;
  }
  Snapshot snapshot = run_on_all_ranks(session, [&] {
    if (session.rank() == 0) {
      std::vector<std::string> changed;
      for (const OptionChange& change : resume_point.changes) changed.push_back(change.option);
      require_same_results(resume_point.expected, now, resume_point.checkpoint.string(), changed);
      return read_for(replica, resume_point);
    }
    Snapshot empty;
    empty.run = resume_point.state;
    if (replica.average) empty.average.emplace();
    for (const std::string& name : optimizer_state_names(replica)) empty.optimizer.push_back({name, {}});
    return empty;
  });
  broadcast(*job.world, snapshot);
  const auto residuals = std::exchange(snapshot.residuals, {});
  restore(replica, snapshot);
  restore_residuals(*job.world, residuals, replica);
  job.log.info("resumed from {} at step {}", resume_point.checkpoint.string(), resume_point.state.step);
  const std::string different = rounding_differences(resume_point.state, now);
  if (!different.empty()) job.log.info("not bit-identical to a run that was not interrupted: {}", different);
  if (session.rank() == 0 && !same_shards(resume_point.state, now) && replica.bn_batch_sums_count() > 0 &&
      !job.options.replica.sync_bn)
    job.log.warn(
        "batch norms normalise over each rank's part of a batch, and the parts have changed: without --sync-bn the "
        "loss may differ");
  return snapshot.model.updates;
}

}  // namespace ddp
