#include "checkpoint/checkpoint.h"

#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"
#include "core/durable_file.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <system_error>
#include <utility>

namespace ddp {
namespace fs = std::filesystem;

namespace {

const std::array<std::string, 3> kFiles = {"model.safetensors", "optimizer.safetensors", "state.json"};

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

void write_optimizer(const fs::path& path, std::span<const OptimizerStateView> states,
                     std::span<const Parameter> parameters) {
  std::vector<NamedTensor> tensors;
  for (const OptimizerStateView& state : states)
    for (const Parameter& p : parameters) {
      DDP_EXPECT(p.offset + p.count <= static_cast<int64_t>(state.values.size()));
      tensors.push_back({p.name + "." + state.name, p.pytorch_shape, to_pytorch(p, state.values)});
    }
  write_safetensors(path, tensors);
}

std::vector<OptimizerState> read_optimizer(const fs::path& path, std::span<const std::string> states,
                                           std::span<const Parameter> parameters) {
  auto tensors = read_safetensors(path);
  std::vector<OptimizerState> result;
  for (const std::string& name : states) {
    OptimizerState& state = result.emplace_back(name, std::vector<float>(flat_count(parameters)));
    for (const Parameter& p : parameters) {
      const auto found = tensors.find(p.name + "." + name);
      require(found != tensors.end(), Exit::model, "{} has no tensor {}.{}; it belongs to another model or optimizer",
              printable(path.native()), p.name, name);
      require(found->second.shape == p.pytorch_shape, Exit::model, "{}: tensor {} has shape [{}], the model needs [{}]",
              printable(path.native()), found->first, fmt::join(found->second.shape, ", "),
              fmt::join(p.pytorch_shape, ", "));
      from_pytorch(p, found->second.values, state.values);
      tensors.erase(found);
    }
  }
  require(tensors.empty(), Exit::model, "{} has tensor {}, which this model and optimizer do not have",
          printable(path.native()), tensors.empty() ? "" : shortened(tensors.begin()->first));
  return result;
}

}  // namespace

SnapshotView Snapshot::view() const {
  SnapshotView view{.model = model.view(), .optimizer = {}, .run = run};
  for (const OptimizerState& state : optimizer) view.optimizer.push_back({state.name, state.values});
  return view;
}

// Order: fill a temporary folder, flush it, rename it, then set the links. A crash at any moment leaves the earlier
// checkpoints intact, links that lead to whole ones, and at most one temporary folder.
fs::path write_checkpoint(const fs::path& folder, const SnapshotView& snapshot, const Tensors& tensors, bool best,
                          const std::function<void(const fs::path&)>& about_to_write) {
  const std::string name = checkpoint_name(snapshot.run.step);
  const fs::path checkpoint = folder / name;
  try {
    create_subfolder(folder);
    const TemporaryFolder temporary(folder / temporary_name(name));
    const auto next_file = [&](const std::string& file) {
      if (about_to_write) about_to_write(temporary.path() / file);
      return temporary.path() / file;
    };
    save_state_dict(next_file(kFiles[0]), tensors.parameters, tensors.batch_norms, snapshot.model, tensors.metadata);
    write_optimizer(next_file(kFiles[1]), snapshot.optimizer, tensors.parameters);
    write_durable_file(next_file(kFiles[2]), to_json(snapshot.run));
    next_file(kManifestFile);
    write_manifest(temporary.path(), kFiles);
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
  verify_manifest(checkpoint, kFiles);
  const fs::path path = checkpoint / kFiles[2];
  return run_state_from_json(read_whole_file(path, kMaxStateBytes), printable(path.native()));
}

Snapshot read_checkpoint(const fs::path& checkpoint, const Tensors& tensors,
                         std::span<const std::string> optimizer_states) {
  Snapshot snapshot;
  snapshot.run = read_run_state(checkpoint);
  snapshot.model = load_state_dict(checkpoint / kFiles[0], tensors.parameters, tensors.batch_norms);
  snapshot.optimizer = read_optimizer(checkpoint / kFiles[1], optimizer_states, tensors.parameters);
  return snapshot;
}

}  // namespace ddp
