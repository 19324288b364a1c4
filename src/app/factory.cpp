#include "app/factory.h"

#include "app/abort.h"
#include "app/gpus.h"
#include "app/run_on_all_ranks.h"
#include "comm/nccl/communicator.h"
#include "comm/staged.h"
#include "device/cpu/device.h"
#include "device/cuda/device.h"
#include "ops/cpu/ops.h"
#include "ops/cuda/ops.h"
#include "train/fences.h"

#include <cstdlib>
#include <span>
#include <vector>

namespace ddp {
namespace {

void require_cpu_options(const Options& o) {
  const auto only_gpu = [](bool given, const char* option) {
    require(!given, Exit::usage, "{} is for GPUs; this run computes on the CPU", option);
  };
  only_gpu(o.precision == "tf32", "--precision tf32");
  only_gpu(o.transport == "nccl", "--transport nccl");
  only_gpu(o.nccl_algo != "auto", "--nccl-algo");
  only_gpu(o.share_gpu, "--share-gpu");
  only_gpu(o.no_graph, "--no-graph");
  only_gpu(o.device_data_mb != Options{}.device_data_mb, "--device-data-mb");
}

void require_gpu_options(const Options& o) {
  require(o.threads == 0, Exit::usage, "--threads is for CPUs; this run computes on GPUs");
  require(!o.direct_conv, Exit::usage, "--conv direct is for CPUs; this run computes on GPUs");
  const bool over_mpi = o.transport == "mpi";
  require(over_mpi || o.allreduce == Allreduce::automatic, Exit::usage, "--allreduce goes with --transport mpi");
  require(!over_mpi || o.nccl_algo == "auto", Exit::usage, "--nccl-algo goes with --transport nccl");
}

Precision precision_of(const std::string& name) {
  return name == "fp32" ? Precision::fp32 : name == "bf16" ? Precision::bf16 : Precision::tf32;
}

Backend make_cuda_backend(const Options& options, MpiSession& session, std::span<const int> visible) {
  const int index = run_on_all_ranks(session, [&] {
    require_gpu_options(options);
    return choose_gpu(session.local_rank(), visible[session.rank()], options.share_gpu);
  });
  const CudaDeviceInfo info = run_on_all_ranks(session, [&] { return cuda_device_info(index); });
  const auto hosts = session.gather(session.host()), buses = session.gather(info.bus_id),
             uuids = session.gather(info.uuid);
  std::vector<RankGpu> ranks;
  for (int r = 0; r < session.size(); ++r) ranks.push_back({hosts[r], buses[r], uuids[r]});
  return run_on_all_ranks(session, [&] {
    if (!options.share_gpu) require_distinct_gpus(ranks);
    return Backend{.device = make_cuda_device({.index = index, .graphs = !options.no_graph}),
                   .description = fmt::format("{}: {} {}, {}, {}", session.host(), info.name, info.bus_id, info.version,
                                              describe_cuda_ops()),
                   .libraries = describe_cuda_ops(),
                   .precision = options.precision == "auto" ? "tf32" : options.precision};
  });
}

}  // namespace

Backend make_backend(const Options& options, MpiSession& session) {
  std::string why = "--device cpu";
  const int visible = options.device == "cpu" ? 0 : count_cuda_devices(why);
  std::vector<int> gpus;
  for (const std::string& count : session.gather(fmt::format("{}", visible))) gpus.push_back(std::atoi(count.c_str()));
  const std::string device = run_on_all_ranks(session, [&] { return choose_device(options.device, gpus, why); });
  if (device == "cuda") return make_cuda_backend(options, session, gpus);
  return run_on_all_ranks(session, [&] {
    require_cpu_options(options);
    return Backend{.device = make_cpu_device(),
                   .description = why,
                   .libraries = {},
                   .precision = options.precision == "auto" ? "fp32" : options.precision};
  });
}

std::unique_ptr<Ops> make_ops(const Options& options, const Backend& backend, Communicator& host, int threads,
                              AutotuneCache& autotune) {
  const Precision precision = precision_of(backend.precision);
  if (backend.device->is_host())
    return make_cpu_ops(*backend.device,
                        {.threads = threads, .precision = precision, .winograd = !options.direct_conv});
  return make_cuda_ops(*backend.device, {.precision = precision,
                                         .deterministic = options.deterministic,
                                         .agree = [&](auto values) { autotune.agree(host, values); }});
}

std::unique_ptr<Communicator> make_transport(const Options& options, const Backend& backend, MpiSession& session,
                                             Communicator& host) {
  if (backend.device->is_host()) return nullptr;
  if (options.transport == "mpi") return make_staged_communicator(*backend.device, host, kTransportFences);
  const NcclConfig config{
      .ring = options.nccl_algo == "ring", .deterministic = options.deterministic, .share_gpu = options.share_gpu};
  run_on_all_ranks(session, [&] {
    set_nccl_variables(config, session.rank());
    return true;
  });
  return abort_on_error(
      session, [&] { return make_nccl_communicator(*backend.device, host, config); }, report_delay(session.rank()));
}

std::string describe_transport(const Options& options, const Backend& backend) {
  if (!backend.device->is_host()) return options.transport == "mpi" ? "buckets over MPI" : describe_nccl();
  return options.allreduce == Allreduce::ring ? "allreduce ring" : "allreduce auto";
}

}  // namespace ddp
