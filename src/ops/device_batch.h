// This rank's shard of a micro-batch, in device memory. Sample i is sample ids[i] of `samples` with label
// ids[i] of `labels`, or sample and label i if `ids` is null. A sample with the label kExcludedLabel has no loss and no
// gradient.
#pragma once

#include "core/batch_plan.h"
#include "ops/batch_mix.h"

#include <cstdint>

namespace ddp {

struct DeviceBatch {
  // Images in the order HWC, or rows of sequence_length + 1 tokens as int32, one after another.
  const uint8_t* samples = nullptr;
  const int32_t* labels = nullptr;
  const int32_t* ids = nullptr;   // null is legal
  const int32_t* keys = nullptr;  // indices in the data set: the keys of the samples' random numbers
  int64_t size = 0;               // samples; ops need at least 1
  int64_t excluded = 0;           // samples with the label kExcludedLabel; ops ignore it

  const int32_t* ids_to_upload = nullptr;  // on the host; not null: who issues the work uploads them to `ids`

  BatchPlan plan = {};      // ops ignore it
  bool uncaptured = false;  // true: work on this batch is issued, not replayed from a graph

  // Of training. Not null: each sample is mixed with its partner, by these values in device memory. The partner of
  // sample 0 is sample `size`: samples, labels, ids and keys have one sample more. A sample whose partner is excluded
  // is not mixed.
  const BatchMix* mix = nullptr;
  bool partner_excluded = false;         // whether sample `size` is excluded; ops ignore it
  const float* class_weights = nullptr;  // of training, in device memory, by label; null: all weights are 1
  double label_weights = 0;              // sum of the weights of the labels, without excluded samples; ops ignore it

  // Tokens of a sample that the network reads: token t of a sample is its input at position t, and token t + 1 the
  // label there. 0: samples are images, with one label each in `labels`.
  int64_t sequence_length = 0;

  int64_t stored() const { return mix && size > 0 ? size + 1 : size; }  // samples in memory
  const int32_t* tokens() const { return reinterpret_cast<const int32_t*>(samples); }
  int64_t id(int64_t i) const { return ids ? ids[i] : i; }  // only if the device is the host
};

}  // namespace ddp
