#include "app/commands/doctor/check_runner.h"

#include "app/commands/doctor/report.h"
#include "app/commands/doctor/time_limit.h"
#include "app/run/injection.h"
#include "comm/heartbeat/heartbeat_slot.h"
#include "core/log.h"
#include "health/abort.h"
#include "health/run_on_all_ranks.h"

#include <cstdlib>
#include <thread>

namespace ddp::doctor {
namespace {

// A rank's phase in a check, as the heartbeat table has it.
enum CheckPhase : int32_t { kNotYet, kWorks, kAwaitsOthers, kPhases };

std::optional<FaultInjection> injected_hang(const std::string& text, MpiSession& session) {
  return run_on_all_ranks(session, [&] {
    const auto injection = injection_of(text, session.size());
    require(!injection || injection->kind == FaultInjection::Kind::hang, Exit::usage,
            "--inject: --doctor supports kind=hang only, where the step is the number of a check");
    return injection;
  });
}

}  // namespace

CheckRunner::CheckRunner(bool json, std::optional<double> step_timeout, const std::string& inject, MpiSession& session)
    : session_(session),
      is_rank_0_(session.rank() == 0),
      json_(json),
      limit_given_(step_timeout),
      injection_(injected_hang(inject, session)) {}

void CheckRunner::check(const char* name, std::chrono::milliseconds limit, const std::function<Findings()>& work) {
  if (limit_given_) limit = std::chrono::milliseconds(static_cast<int64_t>(*limit_given_ * 1000));
  HeartbeatTable& heartbeats = session_.heartbeats();
  heartbeats.publish(++number_, kNotYet);
  const TimeLimit guard(
      limit, [&] { heartbeats.sign_of_life(); }, [&, limit] { abort_check(name, limit); });
  while (injection_ && injection_->rank == session_.rank() && injection_->step == number_)
    std::this_thread::sleep_for(std::chrono::hours(1));
  heartbeats.publish(number_, kWorks);
  const Findings findings = work();
  add(findings);
  await_others();
  session_.gather("");  // a barrier: no rank begins the next check before all have ended this one
}

void CheckRunner::await_others() { session_.heartbeats().publish(number_, kAwaitsOthers); }

void CheckRunner::add(const Findings& findings) {
  const std::lock_guard lock(mutex_);
  findings_.insert(findings_.end(), findings.begin(), findings.end());
  if (!is_rank_0_ || json_) return;
  for (const Finding& finding : findings) write_text(stdout, row_of(finding));
}

void CheckRunner::report_remaining() const {
  if (!is_rank_0_) return;
  write_output(stdout, json_ ? json_of(findings_, session_.size()) : summary_of(findings_), "the report");
}

Exit CheckRunner::end() {
  Exit code{};
  {
    const std::lock_guard lock(mutex_);
    report_remaining();
    code = code_of(findings_);
  }
  return static_cast<Exit>(std::atoi(session_.gather(fmt::format("{}", static_cast<int>(code)))[0].c_str()));
}

// Rank 0 reports first, since it has the findings.
void CheckRunner::abort_check(const char* name, std::chrono::milliseconds limit) {
  std::this_thread::sleep_for(report_delay(session_.rank()));
  if (job_has_failed(session_)) return;
  const Finding finding = hang_finding(name, limit);
  if (!is_rank_0_) abort_job(session_, line_of(finding), finding.code);
  add({finding});
  const std::lock_guard lock(mutex_);
  try {
    report_remaining();
  } catch (const std::exception& e) {
    print_exception(e, -1);
  }
  session_.end(code_of(findings_), finding.problem);
}

Finding CheckRunner::hang_finding(const char* name, std::chrono::milliseconds limit) const {
  const HeartbeatTable& heartbeats = session_.heartbeats();
  const auto seconds_since = [now_ns = steady_ns()](int64_t ns) { return 1e-9 * static_cast<double>(now_ns - ns); };
  std::vector<RankState> ranks;
  for (int rank = 0; rank < heartbeats.size(); ++rank) {
    const Heartbeat heartbeat = heartbeats.read(rank);
    const int pid = heartbeats.pid_of(rank);
    const int64_t heard_ns = heartbeats.heard_ns(rank), alive_ns = heartbeat.alive_ns;
    const bool never_heard_of = alive_ns == 0 && pid == 0;
    ranks.push_back({heartbeats.host_of(rank), pid, heartbeat.step * kPhases + heartbeat.phase,
                     seconds_since(never_heard_of ? heard_ns : alive_ns), seconds_since(heard_ns)});
  }
  return diagnose_hang(name, std::chrono::duration<double>(limit).count(), ranks);
}

}  // namespace ddp::doctor
