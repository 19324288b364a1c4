// The state of a run as Prometheus text (format 0.0.4). Pure functions.
#pragma once

#include "health/ranks_view.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddp {

// The newest values of a run. What is not known yet is not in the text.
struct RunMetrics {
  int64_t step = 0, planned_steps = 0;  // steps done in the whole run, resumed or not
  int64_t epoch = 0;                    // of the last step, from 1; 0: none yet
  int64_t checkpoint_step = -1;         // of the newest checkpoint on the disk; -1: none
  // Sums over the steps of this process: Prometheus expects counters to begin at 0.
  int64_t steps = 0, samples = 0, skipped = 0, failed_saves = 0;
  std::optional<int64_t> tokens = {};  // none: samples are images
  double data_seconds = 0, compute_seconds = 0, exposed_comm_seconds = 0;
  std::optional<double> loss = {}, lr = {}, samples_per_second = {};  // of the last step
  std::optional<double> tokens_per_second = {};                       // of the last step, on tokens
  std::optional<double> accuracy = {}, test_loss = {}, noise_scale = {};
  std::optional<double> perplexity = {};  // on tokens
};

std::string prometheus_text(const RunMetrics& run, std::span<const RankStatus> ranks);

}  // namespace ddp
