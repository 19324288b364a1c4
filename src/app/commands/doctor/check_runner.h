// Runs the doctor's checks one after another on all ranks, each with a time limit. Rank 0 prints the findings.
#pragma once

#include "app/commands/doctor/finding.h"
#include "comm/mpi/session.h"
#include "train/fault_injection.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace ddp::doctor {

class CheckRunner {
 public:
  // `json`: prints the report as JSON. `step_timeout`: --step-timeout in seconds. `inject`: --inject.
  CheckRunner(bool json, std::optional<double> step_timeout, const std::string& inject, MpiSession& session);

  // Runs `work` on all ranks; rank 0's findings count. If it does not end within `limit` (--step-timeout, if given,
  // replaces it), the job ends with one message that names the check. Collective.
  void check(const char* name, std::chrono::milliseconds limit, const std::function<Findings()>& work);

  // Called within a check: this rank has done its own part and waits for the others.
  void await_others();

  // Prints the end of the report. Returns rank 0's exit code on all ranks. Collective. Throws Error(Exit::output) on
  // rank 0 if the report cannot be written.
  Exit end();

 private:
  void add(const Findings& findings);
  void report_remaining() const;
  void abort_check(const char* name, std::chrono::milliseconds limit);
  Finding hang_finding(const char* name, std::chrono::milliseconds limit) const;

  MpiSession& session_;
  const bool is_rank_0_, json_;
  const std::optional<double> limit_given_;  // seconds
  const std::optional<FaultInjection> injection_;
  int64_t number_ = 0;  // number of the current check, from 1
  mutable std::mutex mutex_;
  Findings findings_;
};

// A rank's state in a check, from the heartbeat table.
struct RankState {
  std::string host;
  int pid = 0;                     // 0: unknown, as for ranks of other hosts
  int64_t progress = 0;            // grows with each check and within a check
  double silent_seconds = 0;       // time since its last sign of life
  double host_silent_seconds = 0;  // time since the last news of its host
};

// Finds the rank or host that a check waits for. Pure function. `ranks` is ordered by rank.
Finding diagnose_hang(const char* name, double limit_seconds, const std::vector<RankState>& ranks);

}  // namespace ddp::doctor
