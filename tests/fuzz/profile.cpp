// An input is the profile.json of a run. A profile that is read, written and read again must be equal, and predict
// finite times.
#include "ddp/run_profile.h"
#include "ddp/scaling.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/repeat.h"

#include <cmath>
#include <string>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ddp::LinearTime limit(size);
  const std::string text(reinterpret_cast<const char*>(data), size);
  ddp::read_or_refuse(ddp::Exit::data, [&] {
    const ddp::RunProfile profile = ddp::profile_from(text, "file");
    const std::string written = to_json(profile);
    ddp::check(to_json(ddp::profile_from(written, "file")) == written, "a profile survives being written");
    const ddp::Cluster cluster{.ranks = 1024, .ranks_per_host = 8, .network = {.latency_ms = 1, .ms_per_byte = 1e-6}};
    ddp::Workload workload{.batch_per_rank = profile.shard * profile.micro_batches};
    if (profile.parameters.size() > 20) workload.caps = ddp::BucketCaps();
    const ddp::Scaling many = ddp::scaling_on(profile, cluster, workload), one = ddp::scaling_on(profile, {}, workload);
    ddp::check(std::isfinite(many.step_ms), "the time of a step is finite");
    ddp::check(std::isfinite(ddp::efficiency(many, one)), "the efficiency is finite");
  });
  return 0;
}
