#include "app/doctor/checks.h"

#include <algorithm>
#include <iterator>

namespace ddp::doctor {

Findings quick_findings(Ranks ranks, const Options& options, bool on_gpus, const std::string& launcher) {
  Findings problems;
  for (const Findings& some : {judge_cores(ranks, on_gpus, launcher), judge_shared_memory(ranks, on_gpus),
                               judge_nccl_variables(ranks, options, on_gpus), judge_interfaces(ranks, on_gpus)})
    std::ranges::copy_if(some, std::back_inserter(problems), [](const Finding& f) { return f.verdict != Verdict::ok; });
  return problems;
}

}  // namespace ddp::doctor
