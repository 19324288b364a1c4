#include "checkpoint/checkpoint.h"

#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_fit.h"
#include "core/durable_file.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <system_error>
#include <utility>

namespace ddp {
namespace fs = std::filesystem;

namespace {

const std::array<std::string, 3> kFiles = {"model.safetensors", "optimizer.safetensors", "state.json"};
const std::array<std::string, 1> kOptionalFiles = {kAverageFile};

// A temporary folder. The destructor deletes it with all its content.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    const bool created = fs::create_directory(path_, error);
    require(created, Exit::output, "cannot create {}: {}; make room or choose another --output-dir", path_.string(),
            error ? error.message() : "it exists");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void point_link(const fs::path& folder, const std::string& link, const fs::path& checkpoint) {
  replace_link(folder / link, checkpoint.filename(), folder / temporary_name(link));
}

// Calls visit(name, values) for the means and for the variances of each batch norm. `stats`: of all batch norms.
template <class Stats, class Visit>
void for_each_average(std::span<const BatchNormState> batch_norms, Stats stats, Visit&& visit) {
  for (const BatchNormState& norm : batch_norms) {
    const auto values = stats.subspan(norm.span.offset, 2 * norm.span.channels);
    visit(norm.layer_name + ".running_mean", values.first(norm.span.channels));
    visit(norm.layer_name + ".running_var", values.last(norm.span.channels));
  }
}

std::string residual_name(size_t host) { return fmt::format("residual.{}", host); }

void write_optimizer(const fs::path& path, const SnapshotView& snapshot, const Tensors& of) {
  std::vector<TensorSource> tensors;
  std::vector<OptimizerStateView> states = snapshot.optimizer;
  for (size_t host = 0; host < snapshot.residuals.size(); ++host)
    states.push_back({residual_name(host), snapshot.residuals[host]});
  for (const OptimizerStateView& state : states)
    for (const Parameter& p : trained_of(of.parameters)) {
      DDP_EXPECT(p.offset + p.count <= static_cast<int64_t>(state.values.size()));
      tensors.push_back(
          {p.name + "." + state.name, p.pytorch_shape, [&p, flat = state.values] { return to_pytorch(p, flat); }});
    }
  if (!snapshot.running_stats.empty())
    for_each_average(
        of.batch_norms, snapshot.running_stats, [&](const std::string& name, std::span<const float> values) {
          tensors.push_back(
              {name, {std::ssize(values)}, [values] { return std::vector<float>(values.begin(), values.end()); }});
        });
  write_safetensors(path, tensors);
}

void read_optimizer(const fs::path& path, const Tensors& of, std::span<const std::string> optimizer_states,
                    Snapshot& snapshot) {
  const auto tensors = read_safetensors(path);
  const bool averages = snapshot.run.bn_stats_samples > 0;
  snapshot.running_stats.resize(averages ? state_count(of.batch_norms) : 0);
  const auto trained = trained_of(of.parameters);
  std::vector<std::string> states(optimizer_states.begin(), optimizer_states.end());
  for (size_t host = 0; !trained.empty() && tensors.contains(trained[0].name + "." + residual_name(host)); ++host)
    states.push_back(residual_name(host));
  std::vector<NeededTensor> needed;
  for (const std::string& state : states)
    for (const Parameter& p : trained) needed.push_back({p.name + "." + state, p.pytorch_shape});
  if (averages)
    for_each_average(of.batch_norms, std::span(snapshot.running_stats),
                     [&](const std::string& name, std::span<float> values) {
                       needed.push_back({name, {std::ssize(values)}});
                     });
  const TensorFit fit = fit_of(tensors, needed);
  require(fit.fits() && fit.prefix.empty() && fit.lacking.empty(), Exit::model,
          "{} does not fit the model and its optimizer: {}", printable(path.native()), fit.text());
  for (size_t k = 0; k < states.size(); ++k) {
    std::vector<float> flat(flat_count(trained));
    for (const Parameter& p : trained) from_pytorch(p, tensors.at(p.name + "." + states[k]).values, flat);
    const bool is_residual = k >= optimizer_states.size();
    require(!is_residual || std::ranges::all_of(flat, [](float value) { return std::isfinite(value); }), Exit::data,
            "{} has a NaN or an infinity in a {}; resume from an earlier checkpoint", printable(path.native()),
            states[k]);
    if (!is_residual)
      snapshot.optimizer.push_back({states[k], std::move(flat)});
    else
      snapshot.residuals.push_back(std::move(flat));
  }
  if (averages)
    for_each_average(of.batch_norms, std::span(snapshot.running_stats),
                     [&](const std::string& name, std::span<float> values) {
                       std::ranges::copy(tensors.at(name).values, values.begin());
                     });
}

}  // namespace

SnapshotView Snapshot::view() const {
  SnapshotView view{.model = model.view(), .running_stats = running_stats, .optimizer = {}, .run = run};
  if (average) view.average = average->view();
  for (const OptimizerState& state : optimizer) view.optimizer.push_back({state.name, state.values});
  view.residuals.assign(residuals.begin(), residuals.end());
  return view;
}

// Order: fill a temporary folder, flush it, rename it, then set the links. A crash at any moment leaves the earlier
// checkpoints intact, links that lead to whole ones, and at most one temporary folder.
fs::path write_checkpoint(const fs::path& folder, const SnapshotView& snapshot, const Tensors& tensors, bool best,
                          const std::function<void(const fs::path&)>& about_to_write) {
  const std::string name = checkpoint_name(snapshot.run.step);
  const fs::path checkpoint = folder / name;
  const int64_t samples = snapshot.run.bn_stats_samples;
  DDP_EXPECT(std::ssize(snapshot.running_stats) == (samples > 0 ? state_count(tensors.batch_norms) : 0));
  try {
    create_subfolder(folder);
    const TemporaryFolder temporary(folder / temporary_name(name));
    const auto next_file = [&](const std::string& file) {
      if (about_to_write) about_to_write(temporary.path() / file);
      return temporary.path() / file;
    };
    save_state_dict(next_file(kFiles[0]), tensors.parameters, tensors.batch_norms, snapshot.model,
                    with_statistics(tensors.metadata, tensors.batch_norms, samples));
    if (snapshot.average)
      save_state_dict(next_file(kAverageFile), tensors.parameters, tensors.batch_norms, *snapshot.average,
                      of_average(tensors.metadata, tensors.batch_norms));
    write_optimizer(next_file(kFiles[1]), snapshot, tensors);
    write_durable_file(next_file(kFiles[2]), to_json(snapshot.run));
    next_file(kManifestFile);
    std::vector<std::string> files(kFiles.begin(), kFiles.end());
    if (snapshot.average) files.emplace_back(kAverageFile);
    write_manifest(temporary.path(), files);
    flush_folder(temporary.path());
    replace_folder(temporary.path(), checkpoint);
    flush_folder(folder);  // before a link may lead to it
    point_link(folder, "latest", checkpoint);
    if (best) point_link(folder, "best", checkpoint);
    flush_folder(folder);  // before prune_checkpoints() deletes what a link led to
  } catch (const std::exception& e) {
    const auto* error = dynamic_cast<const Error*>(&e);
    if (error && error->code() == Exit::output) throw;
    fail(Exit::output, "cannot write {}: {}; make room or choose another --output-dir", checkpoint.string(), e.what());
  }
  return checkpoint;
}

RunState read_run_state(const fs::path& checkpoint) {
  std::error_code error;
  require(fs::is_directory(checkpoint, error), Exit::data, "{} is {}", printable(checkpoint.native()),
          fs::exists(checkpoint, error) ? "a file, not a checkpoint folder" : "missing");
  verify_manifest(checkpoint, kFiles, kOptionalFiles);
  const fs::path path = checkpoint / kFiles[2];
  return run_state_from_json(read_whole_file(path, kMaxStateBytes), printable(path.native()));
}

Snapshot read_checkpoint(const fs::path& checkpoint, const Tensors& tensors,
                         std::span<const std::string> optimizer_states, bool with_average) {
  Snapshot snapshot;
  snapshot.run = read_run_state(checkpoint);
  snapshot.model = load_state_dict(checkpoint / kFiles[0], tensors.parameters, tensors.batch_norms);
  if (with_average)
    snapshot.average = load_state_dict(checkpoint / kAverageFile, tensors.parameters, tensors.batch_norms);
  read_optimizer(checkpoint / kFiles[1], tensors, optimizer_states, snapshot);
  return snapshot;
}

}  // namespace ddp
