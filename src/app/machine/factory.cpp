#include "app/machine/factory.h"

#include "app/machine/gpus.h"
#include "comm/nccl/communicator.h"
#include "comm/staged.h"
#include "device/cpu/device.h"
#include "device/cuda/device.h"
#include "health/abort.h"
#include "health/run_on_all_ranks.h"
#include "ops/cpu/ops.h"
#include "ops/cuda/ops.h"
#include "train/step/fences.h"

#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

void require_fit(const DeviceConfig& config, const TransportConfig& transport, DeviceKind device) {
  const auto unfit = unfit_options(config, transport, device);
  require(unfit.empty(), Exit::usage, "{}", unfit.empty() ? "" : unfit[0].refusal);
}

// `gpus`: the number of GPUs that each rank sees. `why`: the reason why this rank sees none. Collective.
DeviceKind agree_on_device(DeviceKind asked, MpiSession& session, std::vector<int>& gpus, std::string& why) {
  why = "--device cpu";
  const int visible = asked == DeviceKind::cpu ? 0 : count_cuda_devices(why);
  for (const std::string& count : session.gather(fmt::format("{}", visible))) gpus.push_back(std::atoi(count.c_str()));
  return run_on_all_ranks(session, [&] { return choose_device(asked, gpus, why); });
}

const char* name_of(Precision precision) {
  return precision == Precision::fp32 ? "fp32" : precision == Precision::bf16 ? "bf16" : "tf32";
}

Backend make_cuda_backend(DeviceConfig config, const TransportConfig& transport, MpiSession& session,
                          std::span<const int> visible) {
  const int index = run_on_all_ranks(session, [&] {
    require_fit(config, transport, DeviceKind::cuda);
    return choose_gpu(session.local_rank(), visible[session.rank()], config.share_gpu);
  });
  const CudaDeviceInfo info = run_on_all_ranks(session, [&] { return cuda_device_info(index); });
  const auto hosts = session.gather(session.host()), buses = session.gather(info.bus_id),
             uuids = session.gather(info.uuid);
  std::vector<RankGpu> ranks;
  for (int r = 0; r < session.size(); ++r) ranks.push_back({hosts[r], buses[r], uuids[r]});
  return run_on_all_ranks(session, [&] {
    if (!config.share_gpu) require_distinct_gpus(ranks);
    const Precision precision = config.precision.emplace(config.precision.value_or(Precision::tf32));
    auto device = make_cuda_device({.index = index, .graphs = config.graphs, .programmatic = config.programmatic});
    const std::string libraries = describe_cuda_ops(), name = device->name();
    Identity identity{{"device", name}, {"libraries", libraries}, {"precision", name_of(precision)}};
    if (precision == Precision::bf16) identity["attention"] = "cuDNN where it has an engine";
    return Backend{.device = std::move(device),
                   .description = fmt::format("{}: {} {}, {}, {}", session.host(), info.name, info.bus_id, info.version,
                                              libraries),
                   .arithmetic = fmt::format(
                       "{}{}{}{}", name_of(precision), config.deterministic ? ", deterministic" : "",
                       config.graphs ? "" : ", without graphs", config.programmatic ? ", programmatic launches" : ""),
                   .compiling = info.compiling,
                   .identity = std::move(identity),
                   .config = config,
                   .transport = transport};
  });
}

Backend make_cpu_backend(DeviceConfig config, const TransportConfig& transport, const std::string& description) {
  require_fit(config, transport, DeviceKind::cpu);
  const Precision precision = config.precision.emplace(config.precision.value_or(Precision::fp32));
  std::string limit;
  if (config.cpu_isa) limit_dnnl(*config.cpu_isa);
  if (config.cpu_isa && *config.cpu_isa != InstructionSet::v4)
    limit = fmt::format(", limited to {}", name_of(*config.cpu_isa));
  config.cpu_isa.emplace(config.cpu_isa.value_or(best_instruction_set()));
  auto device = make_cpu_device();
  const std::string name = device->name() + limit;
  return {.device = std::move(device),
          .description = description + limit,
          .arithmetic = precision == Precision::fp32 ? "" : name_of(precision),
          .compiling = {},
          .identity = {{"device", name}, {"precision", name_of(precision)}},
          .config = config,
          .transport = transport};
}

}  // namespace

DeviceKind device_in_use(DeviceKind asked, MpiSession& session) {
  std::string why;
  std::vector<int> gpus;
  return agree_on_device(asked, session, gpus, why);
}

Backend make_backend(const DeviceConfig& config, const TransportConfig& transport, MpiSession& session) {
  std::string why;
  std::vector<int> gpus;
  if (agree_on_device(config.kind, session, gpus, why) == DeviceKind::cuda)
    return make_cuda_backend(config, transport, session, gpus);
  return run_on_all_ranks(session, [&] { return make_cpu_backend(config, transport, why); });
}

namespace {

constexpr double kEngineSeconds = 60, kCpuEngineSeconds = 2;

CpuOpsConfig cpu_ops_config(const DeviceConfig& config, int threads) {
  const Precision precision = config.precision.value();
  return {.threads = threads,
          .precision = precision,
          .winograd = config.winograd,
          .instruction_set = config.cpu_isa.value()};
}

}  // namespace

std::unique_ptr<Ops> make_ops(const Backend& backend, Communicator& host, int threads, AutotuneCache& autotune,
                              const MeasuredEngines& known) {
  const DeviceConfig& config = backend.config;
  const bool on_cpu = backend.device->is_host();
  const Measuring measuring{
      .seconds = config.deterministic ? 0 : config.engine_seconds.value_or(on_cpu ? kCpuEngineSeconds : kEngineSeconds),
      .agree = [&](auto values) { autotune.agree(host, values); },
      .decided = [&] { return autotune.has_more(); },
      .measured = [&](const auto& pass) { autotune.keep(pass); },
      .known = known};
  if (!on_cpu)
    return make_cuda_ops(
        *backend.device,
        {.precision = config.precision.value(), .deterministic = config.deterministic, .measuring = measuring});
  CpuOpsConfig of_cpu = cpu_ops_config(config, threads);
  of_cpu.measuring = measuring;
  return make_cpu_ops(*backend.device, of_cpu);
}

std::unique_ptr<Ops> make_planning_ops(const Backend& backend, Device& device, int threads) {
  const DeviceConfig& config = backend.config;
  if (device.is_host()) return make_cpu_ops(device, cpu_ops_config(config, threads));
  return make_cuda_ops(
      device,
      {.precision = config.precision.value(), .deterministic = config.deterministic, .measuring = {.seconds = 0}});
}

std::unique_ptr<Communicator> make_transport(const Backend& backend, MpiSession& session, Communicator& host,
                                             bool batch_norms) {
  if (backend.device->is_host()) return nullptr;
  const TransportConfig& transport = backend.transport;
  if (choose_transport(transport.kind, true) == TransportKind::mpi)
    return make_staged_communicator(*backend.device, host, kTransportFences);
  const NcclConfig config{.ring = transport.nccl_ring,
                          .deterministic = backend.config.deterministic,
                          .split = batch_norms && host.size() > 1,
                          .share_gpu = backend.config.share_gpu};
  run_on_all_ranks(session, [&] { set_nccl_variables(config, session.rank()); });
  return abort_on_error(
      session, [&] { return make_nccl_communicator(*backend.device, host, config); }, report_delay(session.rank()));
}

std::string describe_transport(const Backend& backend, const Communicator& communicator) {
  const bool alone = communicator.size() == 1;
  const std::string allreduce = "allreduce by " + communicator.description();
  if (backend.device->is_host()) return alone ? "no allreduce" : allreduce;
  if (choose_transport(backend.transport.kind, true) == TransportKind::nccl) return describe_nccl();
  return alone ? "buckets over MPI" : "buckets over MPI, " + allreduce;
}

}  // namespace ddp
