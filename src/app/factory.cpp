#include "app/factory.h"

#include "device/cpu/device.h"
#include "device/cuda/device.h"
#include "nn/models.h"
#include "ops/cpu/ops.h"
#include "ops/cuda/ops.h"

namespace ddp {

Backend make_backend(const Options& options, int local_rank, int threads) {
  Backend backend;
  if (options.device == "cuda") {
    backend.device = make_cuda_device(local_rank);
    backend.ops = make_cuda_ops(*backend.device);
  } else {
    backend.device = make_cpu_device();
    backend.ops = make_cpu_ops(*backend.device, threads);
  }
  return backend;
}

Network make_network(const Options& options, ImageShape image, int classes) {
  if (options.model == "lenet") return lenet(image, classes);
  fail(Exit::usage, "--model {}: the models are: lenet", options.model);
}

}  // namespace ddp
