#include "ops/cpu/blocked_conv2d.h"
#include "ops/cpu/conv2d.h"
#include "ops/cpu/conv_algorithm.h"
#include "ops/cpu/ops.h"
#include "tests/ops/backend.h"

#include <omp.h>

namespace ddp::testing {
std::vector<Backend> backends() {
  Backend f32{.name = "cpu_f32",
              .formats = {{},
                          Format::batch_interleaved(8),
                          Format::batch_interleaved(16),
                          Format::blocked_channels(8),
                          Format::blocked_channels(16)},
              .threads = {1, 2},
              .sums = 1e-6};
  f32.linear_formats = f32.formats;
  Backend bf16 = f32;
  bf16.name = "cpu_bf16";
  bf16.precision = Precision::bf16;
  bf16.activations = bf16.products = 0;
#ifdef __SANITIZE_ADDRESS__
  // Here only accesses to memory count. Both widths of a format are one template, the sets of instructions differ in
  // the compiler's flags, and the tests of the program run on one thread. The other builds compare all.
  for (Backend* const backend : {&f32, &bf16}) {
    backend->formats = backend->linear_formats = {{}, Format::batch_interleaved(16), Format::blocked_channels(16)};
    backend->threads = {2};
  }
  std::vector<Backend> all = {f32, bf16};
#else
  std::vector<Backend> all = {f32, bf16};
  for (const InstructionSet set : {InstructionSet::base, InstructionSet::v3, InstructionSet::v4})
    for (Backend forced : {f32, bf16}) {
      if (set == best_instruction_set()) continue;
      forced.name += std::string("_") + name_of(set);
      forced.forced = set;
      if (set > best_instruction_set()) forced.missing = name_of(set);
      forced.threads = {2};
      all.push_back(forced);
    }
#endif
  all.push_back({.name = "reference", .kind = Backend::Kind::reference, .gradients = 1e-4, .gradient_step = 1.0f / 64});
  return all;
}

std::unique_ptr<Device> make_device(const Backend&) { return make_cpu_device(); }

std::unique_ptr<Ops> make_ops(Device& device, const Backend& backend, int threads) {
  if (backend.kind == Backend::Kind::reference) return make_reference_ops(device);
  CpuOpsConfig config{.threads = threads, .precision = backend.precision};
  if (backend.forced && backend.missing.empty()) config.instruction_set = *backend.forced;
  return make_cpu_ops(device, config);
}

// Our kernels for lanes, and the other ones by each algorithm, with and without AMX, in each format that they accept.
// With a forced set only our own kernels: oneDNN does not follow the set of our kernels.
void each_convolution(Device& device, const Backend& backend, Conv2dDesc desc, int64_t n,
                      const std::function<void(ddp::Conv2d&, Format, const ConvBounds&)>& check) {
  const int64_t sizes[] = {n, n + 1};
  const DType type = backend.type();
  for (const Format format : backend.linear_formats) {
    const bool lanes = format.kind == Format::Kind::batch_interleaved;
    if (!lanes && backend.forced) continue;
    if (format.kind == Format::Kind::blocked_channels && desc.input.c % format.block != 0) continue;
    for (const int threads : backend.threads) {
      SCOPED_TRACE(fmt::format("{}, {} threads", text_of(format), threads));
      desc.input_format = format;
      const Workers workers(device, threads, backend.forced.value_or(best_instruction_set()));
      omp_set_num_threads(threads);
      if (lanes && type == DType::f32) {
        SCOPED_TRACE("kernels for lanes");
        check(*make_lane_conv2d(workers, desc), format, {backend.products});
      }
      if (backend.forced) continue;
      for (const bool amx : {false, true}) {
        if (amx && (type != DType::bf16 || !offers_amx())) continue;
        DnnlConfig config{.activations = type, .scratch = nullptr, .amx = amx, .widen = must_widen(workers, type)};
        for (const auto& [widen, own] : conv_algorithms(workers, config, desc, n)) {
          if (amx && own == OwnKernels::none) continue;  // the same as without it
          config.widen = widen;
          config.own = own;
          for (const bool winograd : {true, false}) {
            // Only oneDNN's outputs depend on it.
            if (!winograd && !(type == DType::f32 && own == OwnKernels::none && suits_winograd(desc, n))) continue;
            config.winograd = winograd;
            SCOPED_TRACE(
                fmt::format("widen {}, own {}, Winograd {}, AMX {}", widen, static_cast<int>(own), winograd, amx));
            const bool tiles = own == OwnKernels::all && !amx;
            ConvBounds bounds{backend.products};
            if (tiles) bounds = type == DType::bf16 && !widen ? kBf16Winograd : kF32Winograd;
            if (tiles && type == DType::bf16 && widen) bounds.activations = backend.products;
            check(*make_blocked_conv2d(workers, config, desc, sizes), format, bounds);
          }
        }
      }
    }
  }
}

}  // namespace ddp::testing
