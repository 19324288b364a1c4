// --batch-size max: the largest global batch that fits in the memory of every rank.
//
// The memory of a batch is planned, not tried. On a CPU, the models of a batch are built in address space alone
// (PlanningMemory), so the plan has what the run will allocate: flat buffers, activations, and the packed weights and
// the scratch of the ops. On a GPU, two small batches are built; their difference is what a sample takes. The rings of
// the loaders and, on rank 0, the copies of the weights in which it writes files are added. With --zero 1, the plan has
// the whole optimizer state on each rank, which is more than the run takes. What libraries allocate for
// themselves has no plan: one in 16 bytes is left for it, and 64 MiB on a CPU, 768 MiB on a GPU (a workspace of cuDNN
// has up to 512).
#pragma once

#include "app/machine/factory.h"
#include "app/run/open_job.h"

#include <cstdint>
#include <functional>

namespace ddp {

// Builds the models of the job, with its present samplers, and frees them. Returns the bytes that rank 0 takes to write
// files.
using BuildModels = std::function<int64_t(Device& device, Ops& ops, Communicator& communicator)>;

// Replaces the options of the job by those with the number that is found, and its samplers. Call it when the transport
// has taken its memory. Collective. Throws CollectiveError: Exit::device where not even the smallest batch fits,
// Exit::usage where another option does not fit the number.
void settle_batch(Job& job, const Backend& backend, int threads, const BuildModels& build);

}  // namespace ddp
