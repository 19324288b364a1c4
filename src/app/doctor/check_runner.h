// The doctor's rounds: one check after another on all ranks, each under a time limit, with rank 0 telling what it
// found.
#pragma once

#include "app/doctor/finding.h"
#include "app/options.h"
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
  CheckRunner(const Options& options, MpiSession& session);

  // Does `work`, which all ranks do together. What rank 0 found counts. Where it does not end in time, the job is ended
  // with one message that names the check.
  void check(const char* name, std::chrono::milliseconds limit, const std::function<Findings()>& work);

  // Within a check: this rank has done its own part, and waits for the others.
  void await_others();

  // Rank 0's verdict, on all ranks. Collective.
  Exit end();

 private:
  void say(const Findings& findings);
  void report_remaining() const;
  void give_up(const char* name, std::chrono::milliseconds limit);
  Finding hang(const char* name, std::chrono::milliseconds limit) const;

  MpiSession& session_;
  const bool speaks_, json_;
  const std::optional<double> limit_given_;  // seconds
  const std::optional<FaultInjection> injection_;
  int64_t number_ = 0;  // of the check, from 1
  mutable std::mutex mutex_;
  Findings findings_;
};

// Which rank a check waits for, by what the heartbeat table tells of it: a pure decision.
struct RankState {
  std::string host;
  int pid = 0;                 // 0: not known, as for ranks of other hosts
  int64_t progress = 0;        // grows with each check, and within it
  double silent_seconds = 0;   // since its last sign of life
  double unheard_seconds = 0;  // since news of its host
};
Finding blame(const char* name, double limit_seconds, const std::vector<RankState>& ranks);

}  // namespace ddp::doctor
