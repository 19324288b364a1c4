// One optimizer step over the global batch, on every rank at once.
#pragma once

#include "data/loader.h"
#include "train/replica.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddp {

struct StepResult {
  int64_t step = 0;   // 1 for the first of the run
  int64_t epoch = 0;  // from 1
  double loss = 0;    // mean over the global batch, before the update
  double lr = 0;
  int64_t samples = 0;  // of the global batch
  double data_ms = 0, compute_ms = 0, exposed_comm_ms = 0;
};

class Step {
 public:
  explicit Step(Replica& replica);

  // Issues the step for this rank's shard and does not wait for its result. Returns that of the step before the last,
  // which every rank acts on alike: it throws where a rank has seen NaN or infinity (Exit::numerics) or is at another
  // step (Exit::communication); both are SharedErrors.
  std::optional<StepResult> run(const Batch& batch, double lr, double data_ms);

  // Waits for the steps still in flight, in order.
  std::vector<StepResult> drain();

 private:
  static constexpr int kInFlight = 2;
  struct Pending {
    StepResult result;
    int64_t expected_samples = 0;
    std::vector<float> ticket;  // filled by the device
    int first_mark = 0;
  };

  void compute_gradients(const Batch& batch);
  void open_ticket(const Batch& batch);
  void announce(ParameterId id);
  StepResult settle();

  Replica& replica_;
  Announce announce_;
  bool loss_checked_ = false;
  Buffer lr_;
  int64_t issued_ = 0, settled_ = 0;
  std::array<Pending, kInFlight + 1> pending_;
};

}  // namespace ddp
