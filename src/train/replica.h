// One rank's copy of the model, with the flat buffers of weights and gradients, the bucket plan over them, and the
// reducer that sums them. All ranks build it alike.
#pragma once

#include "comm/communicator.h"
#include "ddp/bucket_plan.h"
#include "ddp/reducer.h"
#include "ddp/ticket.h"
#include "device/buffer.h"
#include "nn/init.h"
#include "nn/model.h"
#include "train/frame.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

class Replica {
 public:
  // `batch_sizes`: all local batch sizes above 0 of training and evaluation. Weights are zero until load() is called.
  Replica(const Network& network, std::vector<int64_t> batch_sizes, const BucketCaps& caps, Device& device, Ops& ops,
          Communicator& communicator);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  Device& device;
  Ops& ops;
  Communicator& communicator;
  const std::vector<Parameter> parameters;
  const TicketLayout ticket_layout;
  const BucketPlan plan;
  const StepFrame frame;  // behind the gradients

  float* weights() const { return weights_.as<float>(); }
  float* gradients() const { return gradients_.as<float>(); }
  float* ticket() const { return gradients() + frame.ticket; }

  // Host copies in flat order, plan.gradients values. Both wait for the device.
  void load(std::span<const float> weights);
  std::vector<float> download_weights() const;
  std::vector<float> download_gradients() const;

  // The same bits on every rank, or Error(Exit::communication) that names the tensor and the ranks. Collective.
  void check_replicas() const;

 private:
  std::vector<float> download(const float* from) const;

  Buffer weights_, gradients_;

 public:
  Model model;
  Reducer reducer;
};

}  // namespace ddp
