// The progress of a run, without its weights: counters, and the settings that a resumed run is compared with. The order
// of samples, the learning rate and dropout follow from these values.
#pragma once

#include "core/broken_picture.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// Which pictures of a part of the data are no samples, by their positions in the list of the files; ascending.
struct PartState {
  std::vector<int64_t> left_out = {};      // found broken at the start of the run: not in the plan of the epochs
  std::vector<BrokenPicture> broken = {};  // later: in the plan, excluded from a step on
  // Bytes of files when the run began: of pictures that were `broken` in an earlier process. They may be mended now.
  std::map<int64_t, int64_t> sizes = {};
};
struct PicturesState {
  PartState training = {}, validation = {};
  int64_t excluded_in_epoch = 0;  // excluded samples of the steps of the epoch so far
};

// Of --lr-scheduler plateau: torch.optim.lr_scheduler.ReduceLROnPlateau.
struct PlateauState {
  double best = std::numeric_limits<double>::quiet_NaN();  // best loss or accuracy; NaN: none yet
  int64_t bad = 0;                                         // evaluations since then, or since a reduction or cooldown
  int64_t cooldown = 0;                                    // evaluations left in which none counts as bad
  double factor = 1;                                       // of the learning rate
};

// Of --early-stop.
struct EarlyStopState {
  double best = -1;                      // best accuracy; -1: none yet
  int64_t best_epoch = 0;                // epoch of the first evaluation with it, from 1; 0: none yet
  int64_t bad = 0;                       // evaluations since then
  std::optional<double> best_loss = {};  // of tokens, in place of `best`; none yet, or samples are images
};

// Of --rank-weights auto, from the next step on.
struct BalanceState {
  std::vector<int64_t> shares = {};  // samples of each rank in a full micro-batch, 1 at least; empty: equal shards
  std::vector<double> speeds = {};   // of each rank in the last measurement, in samples/s; empty: none
};

struct RunState {
  int64_t step = 0;              // optimizer steps done, skipped steps included
  int64_t epoch = 0;             // epoch of the next step, from 0
  int64_t cursor = 0;            // samples of that epoch that all ranks together have seen
  int64_t skipped = 0;           // bad steps, which left the weights unchanged
  int64_t skipped_in_a_row = 0;  // bad steps since the last good one
  bool evaluation_due = false;   // true: the last step ended an epoch whose evaluation is missing
  int64_t samples = 0;           // samples seen in the run, over all ranks and epochs
  double train_seconds = 0;      // training time in s, evaluations excluded
  double accuracy = -1;          // accuracy of the last evaluation; -1: no evaluation yet
  double best_accuracy = -1;     // best accuracy of all evaluations, of the average of the weights if there is one; -1:
                                 // no evaluation yet
  int64_t best_epoch = 0;        // epoch of the first evaluation with it, from 1; 0: none yet, or unknown
  std::optional<double> best_loss = {};  // of tokens, in place of best_accuracy; none yet, or samples are images
  int64_t bn_stats_samples = 0;  // training samples from which the last evaluation recomputed the statistics of the
                                 // batch norms, for the weights of this step; 0: there are running averages only

  std::optional<PicturesState> pictures = {};  // of a run on pictures in files

  std::optional<PlateauState> plateau = {};       // of a run with this schedule
  std::optional<EarlyStopState> early_stop = {};  // of a run with --early-stop
  std::optional<BalanceState> balance = {};       // of a run with --rank-weights auto

  // By name: the options and data that change results; the settings that change rounding only (ranks, precision,
  // buckets, versions); the algorithms that timings chose, as opaque texts.
  std::map<std::string, std::string> affects_results = {};
  std::map<std::string, std::string> affects_rounding = {};
  std::map<std::string, std::string> autotune = {};
  std::map<std::string, std::string> options = {};  // of the run, by name; empty: an older program wrote none
};

// Readable JSON of format 2. run_state_from_json() restores each number bit for bit.
std::string to_json(const RunState& state);

inline constexpr int64_t kMaxStateBytes = int64_t{1} << 24;

// Reads formats 1 and 2 and ignores unknown keys. Older programs wrote no best_epoch, bn_stats_samples, options or
// pictures: these may be missing. Throws Error(Exit::data) with the file's name where the format is unknown; with the
// key's name too where another key is missing, or a key has an invalid or impossible value.
RunState run_state_from_json(const std::string& text, const std::string& file);

}  // namespace ddp
