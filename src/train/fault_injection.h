// Injects faults, to test the reactions of a run. Decorators of the batch source, the launch hook and the checkpoint
// writer inject them. Training itself knows only that a batch may ask not to be captured in a graph.
#pragma once

#include "train/step/prefetcher.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

namespace ddp {

struct Replica;

// The value of --inject, such as rank=3,step=17,kind=hang, or rank=all,kind=slow.
struct FaultInjection {
  enum class Kind : uint8_t { kill, hang, slow, nan, bitflip, enospc, exit };
  std::optional<int> rank = 0;  // none: every rank
  int64_t step = 1;             // from 1
  Kind kind = Kind::kill;

  bool is_on(int other) const { return !rank || *rank == other; }
};

// Rank and step are optional. Throws Error(Exit::usage) that names the mistake in the text.
FaultInjection parse_fault_injection(std::string_view text);

// Returns `next`, the source of batches from step done + 1 on, with the fault; on another rank `next` itself. When the
// step of the fault gets its first batch: kill ends the process with SIGKILL, exit with _exit(0), hang sleeps forever,
// bitflip flips a bit of a weight on the device. nan and slow wrap the launch hook of the replica's reducer. Before the
// first launch of the step, nan puts NaN into the first bucket; slow sleeps 200 ms, in later steps too, as a rank that
// computes slowly. No graph
// replays the step of nan; where graphs replay the others, slow sleeps before the step gets its batch. The replica
// outlives the result.
NextBatch with_fault(const FaultInjection& fault, Replica& replica, int64_t done, NextBatch next);

// For CheckpointWriterConfig::about_to_write: enospc throws Error(Exit::output) once, for the first file of a
// checkpoint of its step or of a later one. The path contains a folder such as "step-00001234". Returns an empty
// function for other kinds and ranks.
std::function<void(const std::filesystem::path&)> full_disk(const FaultInjection& fault, int rank);

}  // namespace ddp
