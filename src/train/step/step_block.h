// The numbers that host and device exchange in a step, in one copy each way. On the device the block lies after the
// gradients and the batch-norm sums. It begins with the ticket, which is summed over ranks with them. The host has a
// copy for each step in flight.
//
//   | gradients | padding | batch-norm sums | ticket | scalars | epoch | squares | timestamps | mix | ids |
//                                           '------------------------ StepBlock ------------------------'
#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/ticket.h"
#include "ops/batch_mix.h"
#include "ops/optimizer.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddp {

class StepBlock;

// Offsets in floats from the start of the flat gradients.
struct StepBlockLayout {
  // `largest_batch`: ids, of a batch of this rank.
  StepBlockLayout(const BucketPlan& plan, const TicketLayout& of_ticket, int64_t largest_batch);

  TicketLayout ticket_layout;
  int64_t bn_batch_sums, ticket, scalars, epoch, squares, timestamps, mix, ids, end;

  StepBlock on_device(float* gradients) const;  // `gradients` has `end` floats
  size_t host_bytes() const;
  StepBlock on_host(void* memory) const;  // memory of host_bytes(), aligned to 8 bytes
};

// A view. Its memory outlives it.
class StepBlock {
 public:
  // Device time in ns: the step begins, gradients are computed, gradients are summed, weights are updated. One rank
  // alone sums nothing: it leaves the second and the third as they are.
  enum Time : uint8_t { kBegin, kGradients, kSums, kWeights, kTimes };

  // `begin`: start of the ticket.
  StepBlock(float* begin, const StepBlockLayout& layout) : begin_(begin), layout_(layout) {}

  std::span<float> ticket() const { return {begin_, static_cast<size_t>(layout_.ticket_layout.elements())}; }
  float* loss_stats() const { return begin_; }  // in the ticket: loss sum, correct predictions
  std::span<float> bad() const;                 // in the ticket, by rank: not 0 if the rank has NaN or infinity
  OptimizerScalars* scalars() const { return reinterpret_cast<OptimizerScalars*>(at(layout_.scalars)); }
  uint32_t* epoch() const { return reinterpret_cast<uint32_t*>(at(layout_.epoch)); }  // from 0
  // Squared norms: in the ticket, of this rank's part of the gradient; of the sum over ranks (FlatBuffers::squares).
  float* local_squares() const { return begin_ + TicketLayout::kSquares; }
  float* squares() const { return at(layout_.squares); }
  std::span<int64_t, kTimes> timestamps() const {
    return std::span<int64_t, kTimes>(reinterpret_cast<int64_t*>(at(layout_.timestamps)), kTimes);
  }

  BatchMix* mix() const { return reinterpret_cast<BatchMix*>(at(layout_.mix)); }  // of the step's samples

  // Of the samples of the step's first micro-batch (DeviceBatch::ids).
  std::span<int32_t> ids() const {
    return {reinterpret_cast<int32_t*>(at(layout_.ids)), static_cast<size_t>(layout_.end - layout_.ids)};
  }

  // What the host sends, with the ids of a batch of `size` samples: also its values of the timestamps, which the device
  // overwrites. What it gets: all before the mix.
  std::span<float> inputs(int64_t size) const { return {begin_, at(layout_.ids) + size}; }
  std::span<float> results() const { return {begin_, at(layout_.mix)}; }
  const TicketLayout& ticket_layout() const { return layout_.ticket_layout; }

 private:
  float* at(int64_t offset) const { return begin_ + (offset - layout_.ticket); }

  float* begin_;
  StepBlockLayout layout_;
};

}  // namespace ddp
