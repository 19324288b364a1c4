// Factories of the reference ops; each op has its own file.
#pragma once

#include "device/device.h"
#include "ops/ops.h"

#include <memory>
#include <span>

namespace ddp::reference {

std::unique_ptr<Conv2d> make_conv2d(const Device& device, const Conv2dDesc& desc);
std::unique_ptr<Linear> make_linear(const Device& device, const LinearDesc& desc);
std::unique_ptr<Pool2d> make_pool2d(const Device& device, const Pool2dDesc& desc);
std::unique_ptr<BatchNorm> make_batch_norm(const Device& device, const BatchNormDesc& desc);
std::unique_ptr<LayerNorm> make_layer_norm(const Device& device, const LayerNormDesc& desc);
std::unique_ptr<Attention> make_attention(const Device& device, const AttentionDesc& desc);
std::unique_ptr<RunningStats> make_running_stats(std::span<const RunningStatsSpan> layers);
std::unique_ptr<OptimizerOp> make_optimizer(const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors);
std::unique_ptr<TensorHash> make_tensor_hash(std::span<const HashedSpan> tensors);

}  // namespace ddp::reference
