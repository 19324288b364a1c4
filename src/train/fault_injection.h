// Faults on purpose, to rehearse what a run does about them. A testing aid: decorators of what a run uses anyway, so
// that no part of training knows of faults.
#pragma once

#include "train/prefetcher.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace ddp {

struct Replica;

// What --inject says: rank=3,step=17,kind=hang
struct FaultInjection {
  enum class Kind : uint8_t { kill, hang, slow, nan, bitflip, enospc, exit };
  int rank = 0;
  int64_t step = 1;  // from 1
  Kind kind = Kind::kill;
};

// Rank and step are optional. Throws Error(Exit::usage) that names what is wrong with the text.
FaultInjection parse_fault_injection(std::string_view text);

// Wraps the source of a run's batches, from step done + 1 on. When a step gets its first batch: kill ends the process
// with SIGKILL, exit with _exit(0), hang sleeps for ever, slow sleeps 200 ms in this and every later step, bitflip
// flips a bit of a weight on the device. nan wraps the launch hook of the replica's reducer too, and puts NaN into the
// first bucket of the step before the hook scans it; no graph replays that step. On another rank: `next` itself.
NextBatch with_fault(const FaultInjection& fault, Replica& replica, int64_t done, NextBatch next);

// For CheckpointWriterConfig::about_to_write: enospc throws Error(Exit::output) once, for the first file of a
// checkpoint of its step or a later one. The path has a folder such as "step-00001234". Empty for other kinds and
// ranks.
std::function<void(const std::filesystem::path&)> full_disk(const FaultInjection& fault, int rank);

}  // namespace ddp
