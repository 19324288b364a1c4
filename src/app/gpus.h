// Which GPU a rank takes, and whether ranks share one. Pure decisions.
#pragma once

#include "app/device_config.h"

#include <span>
#include <string>

namespace ddp {

// The device to use: cpu or cuda. `asked`: --device. `gpus[r]`: the number of GPUs that rank r sees. `why`: the reason
// that this rank sees none. Throws Error(Exit::device) if cuda was asked for and a rank has no GPU, or if some ranks
// have one and others do not.
DeviceKind choose_device(DeviceKind asked, std::span<const int> gpus, const std::string& why);

// The index of the GPU of a rank that sees `visible` > 0 of them: its local rank, or 0 where the launcher shows each
// rank its own only. Throws Error(Exit::device) where a host has more ranks than GPUs, unless they may share.
int choose_gpu(int local_rank, int visible, bool share);

struct RankGpu {
  std::string host, bus_id, uuid;
};

// Throws Error(Exit::device) that names both ranks where two have the same GPU. By rank.
void require_gpus_apart(std::span<const RankGpu> ranks);

}  // namespace ddp
