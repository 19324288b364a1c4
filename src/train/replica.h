// One rank's copy of the model, with the flat buffers of weights and gradients, the running statistics of its batch
// norms, the bucket plan, the reducer that sums gradients, and the optimizer. All ranks build it alike.
#pragma once

#include "comm/communicator.h"
#include "ddp/bucket_plan.h"
#include "ddp/reducer.h"
#include "ddp/ticket.h"
#include "device/buffer.h"
#include "device/graph_cache.h"
#include "nn/init.h"
#include "nn/model.h"
#include "train/frame.h"
#include "train/weight_update.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ddp {

struct ReplicaConfig {
  std::vector<int64_t> batch_sizes = {};  // all local batch sizes above 0 of training and evaluation
  BucketCaps caps = {};
  OptimizerDesc optimizer = {};
  bool all_decay = true;          // weight decay for biases and the parameters of norms too
  double max_grad_norm = 0;       // of the gradients together; 0: not clipped
  bool zero = false;              // optimizer state in parts (ZeRO stage 1)
  DType grad_dtype = DType::f32;  // in which gradients travel
  bool sync_bn = false;           // batch norms normalise by the global batch
  float label_smoothing = 0;
  uint64_t seed = 0;  // of dropout
};

class Replica {
 public:
  // Weights are zero until load() is called; means are 0 and variances 1.
  Replica(const Network& network, const ReplicaConfig& config, Device& device, Ops& ops, Communicator& communicator);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  Device& device;
  Ops& ops;
  Communicator& communicator;
  const std::vector<Parameter> parameters;
  const std::vector<BatchNormState> batch_norms;
  const TicketLayout ticket_layout;
  const BucketPlan plan;
  const StepFrame frame;  // behind the gradients

  float* weights() const { return weights_.as<float>(); }
  float* gradients() const { return gradients_.as<float>(); }
  float* statistics() const { return gradients() + frame.statistics; }
  float* ticket() const { return gradients() + frame.ticket; }

  // Running statistics as norms say, and those that evaluation uses where they are recomputed for it.
  float* state() const { return state_.as<float>(); }
  float* evaluation_state() const { return evaluation_state_.as<float>(); }
  const Communicator* bn_communicator() const { return bn_communicator_.get(); }  // of batch norms' sums; may be null
  RunningStats& running_stats() const { return *running_stats_; }

  // Host copies in flat order, plan.gradients values, and state_count(norms) of state. All wait for the device. Weights
  // may come without the gap behind the last tensor.
  void load(std::span<const float> weights);
  void load_state(std::span<const float> state);
  std::vector<float> download_weights() const;
  std::vector<float> download_gradients() const;
  std::vector<float> download_state(const float* state) const;

  // Runs `work`, recorded where the communicator allows it.
  void run(GraphCache& graphs, GraphKey key, const std::function<void()>& work) const {
    communicator.capturable() ? graphs.run(key, work) : work();
  }

  // The same bits on every rank, or Error(Exit::communication) that names the tensor and the ranks. Collective.
  void check_replicas() const;

 private:
  ModelConfig model_config(const ReplicaConfig& config);
  GradientWire wire(const ReplicaConfig& config);
  std::vector<float> download(const float* from, int64_t count) const;

  Buffer weights_, gradients_, state_, evaluation_state_, shadow_;
  std::unique_ptr<Communicator> bn_communicator_;  // null where nothing needs it
  std::unique_ptr<RunningStats> running_stats_;

 public:
  Model model;
  Reducer reducer;
  WeightUpdate update;
};

}  // namespace ddp
