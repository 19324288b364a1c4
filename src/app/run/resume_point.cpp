#include "app/run/resume_point.h"

#include "app/options/resume.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "comm/broadcast_host.h"
#include "core/printable.h"
#include "health/run_on_all_ranks.h"
#include "nn/init.h"
#include "train/saving/snapshot.h"

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPixelsEntry = "mean and std";  // entry of the run state

// Searches again under the lock, because an earlier run may have saved a checkpoint before it released the lock.
ResumePoint find_on_rank_0(const std::string& resume, const std::string& output_dir, const Log& log) {
  const bool automatic = resume == "auto";
  const fs::path wanted = automatic ? output_dir : resume;
  ResumePoint resume_point;
  std::vector<std::string> skipped;
  std::optional<FoundCheckpoint> found;
  std::error_code error;
  const bool exists = fs::exists(wanted, error);
  require(!automatic || !error, Exit::output, "cannot use the output folder {}: {}; choose another --output-dir",
          printable(wanted.native()), error.message());
  require(!automatic || !exists || fs::is_directory(wanted, error), Exit::output,
          "{} is not a folder; choose another --output-dir", printable(wanted.native()));
  if (automatic && exists) resume_point.lock.emplace(wanted, FolderLock::kWaitSeconds);
  if (!automatic || exists) found = find_checkpoint(wanted, skipped);
  if (found && !automatic && !found->run_folder.empty()) {
    resume_point.lock.emplace(found->run_folder, FolderLock::kWaitSeconds);
    skipped.clear();
    found = find_checkpoint(wanted, skipped);
  }
  for (const std::string& text : skipped) log.warn("{}", text);
  if (found) {
    resume_point.state = found->state;
    resume_point.checkpoint = found->path;
    resume_point.run_folder = found->run_folder;
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

ModelState initial_model(const NetworkConfig& config, uint64_t seed, const Replica& replica) {
  if (!config.init_from.empty()) return load_state_dict(config.init_from, replica.parameters, replica.batch_norms);
  ModelState state{.weights = std::vector<float>(flat_count(replica.parameters)),
                   .statistics = initial_state(replica.batch_norms)};
  initialize(state.weights, replica.parameters, config.init, seed);
  return state;
}

void broadcast(Communicator& world, ModelState& model) {
  broadcast_host(world, model.weights);
  broadcast_host(world, model.statistics);
  broadcast_host(world, {&model.updates, 1});
}

void broadcast(Communicator& world, Snapshot& snapshot) {
  broadcast(world, snapshot.model);
  broadcast_host(world, snapshot.running_stats);
  for (OptimizerState& state : snapshot.optimizer) broadcast_host(world, state.values);
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
                         const Backend& backend, int threads, const Replica& r, const AutotuneCache& autotune) {
  const auto& [train, test] = data.data;
  const auto& [h, w, c] = train->image_shape();
  RunState state;
  state.affects_results = results_options(o);
  state.affects_results["--dataset"] = data.kind;
  state.affects_results["data set"] = fmt::format("{} and {} images of {} x {} x {} ({:016x})", train->size(),
                                                  test ? test->size() : 0, h, w, c, data.fingerprint);
  if (const std::string input = data.input(); !input.empty()) state.affects_results["input"] = input;
  if (const std::string numbers = pixels.text(); !numbers.empty()) state.affects_results[kPixelsEntry] = numbers;
  state.affects_rounding = rounding_options(o);
  state.affects_rounding["world size"] = fmt::format("{}", r.communicator.size());
  state.affects_rounding.insert(backend.identity.begin(), backend.identity.end());
  if (const std::string order = r.communicator.order_of_terms(); !order.empty())
    state.affects_rounding["order of sums"] = order;
  state.affects_rounding["threads of a rank"] = fmt::format("{}", threads);
  state.affects_rounding["bucket plan"] = fmt::format("{:016x}", r.plan.hash());
  state.autotune["ops"] = autotune.text();
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

ResumePoint find_resume_point(const std::string& resume, const std::string& output_dir, MpiSession& session,
                              Communicator& world, const Log& log) {
  if (resume.empty()) return {};
  ResumePoint resume_point = run_on_all_ranks(
      session, [&] { return session.rank() == 0 ? find_on_rank_0(resume, output_dir, log) : ResumePoint(); });
  std::string state = resume_point.checkpoint.empty() ? "" : to_json(resume_point.state);
  broadcast_host(world, state);
  resume_point.resuming = !state.empty();
  if (!state.empty()) resume_point.state = run_state_from_json(state, "the state of rank 0");
  return resume_point;
}

int64_t restore_or_initialize(const NetworkConfig& network, uint64_t seed, bool sync_bn,
                              const ResumePoint& resume_point, const RunState& now, Replica& replica,
                              MpiSession& session, Communicator& world, const Log& log) {
  if (!resume_point.resuming) {
    const bool from_file = !network.init_from.empty();
    ModelState initial = run_on_all_ranks(session, [&] {
      return from_file && session.rank() != 0 ? ModelState() : initial_model(network, seed, replica);
    });
    if (from_file) broadcast(world, initial);
    replica.load(initial.weights);
    replica.load_running_stats(initial.statistics);
    return initial.updates;
  }
  const std::vector<std::string> names = optimizer_state_names(replica);
  Snapshot snapshot = run_on_all_ranks(session, [&] {
    if (session.rank() == 0) {
      require_same_results(resume_point.state, now, resume_point.checkpoint.string());
      return read_checkpoint(resume_point.checkpoint, {replica.parameters, replica.batch_norms}, names);
    }
    Snapshot empty;
    empty.run = resume_point.state;
    for (const std::string& name : names) empty.optimizer.push_back({name, {}});
    return empty;
  });
  broadcast(world, snapshot);
  restore(replica, snapshot);
  log.info("resumed from {} at step {}", resume_point.checkpoint.string(), resume_point.state.step);
  const std::string different = rounding_differences(resume_point.state, now);
  if (!different.empty()) log.info("not bit-identical to a run that was not interrupted: {}", different);
  if (session.rank() == 0 && !same_shards(resume_point.state, now) && !replica.batch_norms.empty() && !sync_bn)
    log.warn(
        "batch norms normalise over each rank's part of a batch, and the parts have changed: without --sync-bn the "
        "loss may differ");
  return snapshot.model.updates;
}

}  // namespace ddp
