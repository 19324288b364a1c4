#include "app/factory.h"

#include "app/gpus.h"
#include "comm/broadcast_host.h"
#include "comm/nccl/communicator.h"
#include "comm/staged.h"
#include "device/cpu/device.h"
#include "device/cuda/device.h"
#include "nn/models.h"
#include "ops/cpu/ops.h"
#include "ops/cuda/ops.h"
#include "train/work.h"

#include <cstdlib>
#include <vector>

namespace ddp {
namespace {

void require_cpu_options(const Options& o) {
  const auto only_gpu = [](bool given, const char* option) {
    require(!given, Exit::usage, "{} is for GPUs; this run computes on the CPU", option);
  };
  only_gpu(o.precision != "auto" && o.precision != "fp32", "--precision tf32 or bf16");
  only_gpu(o.transport == "nccl", "--transport nccl");
  only_gpu(o.nccl_algo != "auto", "--nccl-algo");
  only_gpu(o.share_gpu, "--share-gpu");
  only_gpu(o.no_graph, "--no-graph");
}

void require_gpu_options(const Options& o) {
  require(o.threads == 0, Exit::usage, "--threads is for CPUs; this run computes on GPUs");
  const bool over_mpi = o.transport == "mpi";
  require(over_mpi || o.allreduce == Allreduce::automatic, Exit::usage, "--allreduce goes with --transport mpi");
  require(!over_mpi || o.nccl_algo == "auto", Exit::usage, "--nccl-algo goes with --transport nccl");
}

Precision precision_of(const std::string& name) {
  return name == "fp32" ? Precision::fp32 : name == "bf16" ? Precision::bf16 : Precision::tf32;
}

Backend make_cuda_backend(const Options& options, MpiSession& session, int visible) {
  require_gpu_options(options);
  const int index = choose_gpu(session.local_rank(), visible, options.share_gpu);
  const CudaDeviceInfo info = cuda_device_info(index);
  if (!options.share_gpu) {
    const auto hosts = session.gather(session.host()), buses = session.gather(info.bus_id);
    const auto uuids = session.gather(info.uuid);
    std::vector<RankGpu> ranks;
    for (int r = 0; r < session.size(); ++r) ranks.push_back({hosts[r], buses[r], uuids[r]});
    require_gpus_apart(ranks);
  }
  Backend backend;
  backend.device = make_cuda_device({.index = index, .graphs = !options.no_graph});
  backend.precision = options.precision == "auto" ? "tf32" : options.precision;
  backend.description = fmt::format("{}: {} {}, {}", session.host(), info.name, info.bus_id, info.version);
  return backend;
}

}  // namespace

Backend make_backend(const Options& options, MpiSession& session) {
  std::string why = "--device cpu";
  const int visible = options.device == "cpu" ? 0 : count_cuda_devices(why);
  std::vector<int> gpus;
  for (const std::string& count : session.gather(fmt::format("{}", visible))) gpus.push_back(std::atoi(count.c_str()));
  if (choose_device(options.device, gpus, why) == "cuda") return make_cuda_backend(options, session, visible);
  require_cpu_options(options);
  return {.device = make_cpu_device(), .description = why, .precision = "fp32"};
}

std::unique_ptr<Ops> make_ops(const Options& options, const Backend& backend, Communicator& host, int threads) {
  if (backend.device->is_host()) return make_cpu_ops(*backend.device, threads);
  return make_cuda_ops(*backend.device, {.precision = precision_of(backend.precision),
                                         .deterministic = options.deterministic,
                                         .agree = [&host](auto values) { broadcast_host(host, values); }});
}

std::unique_ptr<Communicator> make_transport(const Options& options, const Backend& backend, Communicator& host) {
  if (backend.device->is_host()) return nullptr;
  if (options.transport == "mpi") return make_staged_communicator(*backend.device, host, kTransportFences);
  return make_nccl_communicator(
      *backend.device, host,
      {.ring = options.nccl_algo == "ring", .deterministic = options.deterministic, .share_gpu = options.share_gpu});
}

std::string describe_transport(const Options& options, const Backend& backend) {
  if (!backend.device->is_host()) return options.transport == "mpi" ? "buckets over MPI" : describe_nccl();
  return options.allreduce == Allreduce::ring ? "allreduce ring" : "allreduce auto";
}

Network make_network(const Options& options, ImageShape image, int classes) {
  if (options.model == "lenet") return lenet(image, classes);
  fail(Exit::usage, "--model {}: the models are: lenet", options.model);
}

}  // namespace ddp
