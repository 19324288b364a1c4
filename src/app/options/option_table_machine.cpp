// Options of devices, communication, the watchdog and buckets. app/machine/factory.cpp refuses options that do not fit
// the device in use.
#include "app/options/option_table.h"
#include "health/diagnosis.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ddp {
namespace {

constexpr double kMostMiB = 1e9;

void set_step_timeout(Options& o, const std::string& text) {
  constexpr double kMostSeconds = 1e9;
  double seconds = 0;
  const bool automatic = text == "auto";
  require(automatic || (CLI::detail::lexical_cast(text, seconds) && seconds >= 0 && seconds <= kMostSeconds),
          Exit::usage, "--step-timeout {}: give auto, or a number of seconds, 0 for no limit", text);
  o.step_timeout = automatic ? std::nullopt : std::optional(seconds);
}

// `place`, an auto&(Options&), returns a std::optional<double>, which auto empties. config.toml has numbers as numbers.
template <class Place>
Target number_or_auto(Place place) {
  const Target target = through<std::string>("auto", [place](Options& o, const std::string& text) {
    double value = 0;
    place(o) = CLI::detail::lexical_cast(text, value) ? std::optional(value) : std::nullopt;
  });
  return [=](CLI::App& app, const std::string& name, Options& options) {
    return target(app, name, options)->type_name("FLOAT");
  };
}

CLI::Validator auto_or(const CLI::Validator& number) {
  return CLI::Validator([=](std::string& text) { return text == "auto" ? "" : number(text); }, "");
}

Target rank_weights() {
  return [](CLI::App& app, const std::string& name, Options& options) {
    const auto set = [&o = options](const std::vector<std::string>& words) {
      o.batch.balanced = words == std::vector<std::string>{"auto"};
      o.batch.rank_weights.clear();
      if (o.batch.balanced) return;
      constexpr double kMost = 1e9;
      for (const std::string& word : words) {
        double& weight = o.batch.rank_weights.emplace_back();
        require(CLI::detail::lexical_cast(word, weight) && weight > 0 && weight <= kMost, Exit::usage,
                "--rank-weights {}: give auto, or a number above 0, up to {}, for each rank, such as 2,1",
                fmt::join(words, ","), kMost);
      }
    };
    return app.add_option_function<std::vector<std::string>>(name, set)->delimiter(',')->default_str("")->type_name(
        "FLOAT");
  };
}

std::string conflict_of_balance(const Options& o) {
  if (!o.batch.balanced) return "";
  if (o.device.deterministic) return "auto excludes --deterministic: it chooses shards by measurement";
  if (o.batch.largest)
    return "auto excludes --batch-size max: the memory of a rank is planned for twice its equal shard";
  const char* const other = o.replica.sync_bn ? "--sync-bn" : o.replica.zero ? "--zero 1" : nullptr;
  if (!other) return "";
  return fmt::format("auto excludes {}: with it, a rank's computing time contains waits for the other ranks", other);
}

// Times differ from run to run.
constexpr Condition kTimesEngines{"excludes --deterministic", [](const Options& o) { return !o.device.deterministic; }};

int64_t seconds_of(WatchdogLimits::Time time) { return time / std::chrono::seconds(1); }

std::string conflict_of_int8(const Options& o) {
  const bool cannot = o.transport.allreduce == Allreduce::mpi || o.transport.kind == TransportKind::nccl;
  if (o.replica.grad_dtype != GradDType::int8 || !cannot) return "";
  return "int8 excludes --allreduce mpi and --transport nccl, which sum no int8 with a scale; from GPUs it takes "
         "--transport mpi";
}

std::string conflict_of_zero(const Options& o) {
  const bool lars = o.replica.optimizer.kind == OptimizerDesc::Kind::lars;
  return o.replica.zero && lars ? "1 excludes --optimizer lars, which needs whole tensors on each rank" : "";
}

}  // namespace

OptionGroup machine_options() {
  return {
      "Machine",
      {{.name = "--device",
        .target = one_of<DeviceKind>(
            {{"auto", DeviceKind::automatic}, {"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}},
            [](Options & o) -> auto& { return o.device.kind; }),
        .on_resume = {Effect::rounding, "device"},
        .help = "where to compute; auto: GPUs if every rank has one, the CPU if none has, else an error"},
       {.name = "--threads",
        .target = to([](Options & o) -> auto& { return o.device.threads; }),
        .on_resume = {Effect::rounding, "threads of a rank"},
        .help = "computing threads of a CPU rank; 0: its share of the cores",
        .check = CLI::NonNegativeNumber},
       {.name = "--rank-weights",
        .target = rank_weights(),
        .on_resume = Effect::rounding,
        .help = "relative speed of each rank, such as 2,1; auto: as measured, from epoch to epoch; default: equal",
        .conflict = conflict_of_balance},
       {.name = "--allreduce",
        .target = one_of<Allreduce>(
            {{"auto", Allreduce::automatic},
             {"shm", Allreduce::shm},
             {"ring", Allreduce::ring},
             {"mpi", Allreduce::mpi}},
            [](Options & o) -> auto& { return o.transport.allreduce; }),
        .on_resume = Effect::rounding,
        .help = "allreduce between CPU ranks, or with --transport mpi; auto: shm; shm: shared memory on a host, a ring "
                "between hosts; ring: a ring through all ranks; mpi: MPI's own"},
       {.name = "--precision",
        .target = one_of<std::optional<Precision>>(
            {{"auto", std::nullopt}, {"fp32", Precision::fp32}, {"tf32", Precision::tf32}, {"bf16", Precision::bf16}},
            [](Options & o) -> auto& { return o.device.precision; }),
        .on_resume = {Effect::rounding, "precision"},
        .help = "precision of multiplications; weights and sums are f32; auto: tf32 on a GPU, fp32 on a CPU"},
       {.name = "--conv",
        .target = one_of<bool>(
            {{"auto", true}, {"direct", false}}, [](Options & o) -> auto& { return o.device.winograd; }),
        .on_resume = Effect::rounding,
        .help = "convolutions on a CPU; auto: Winograd's algorithm where it is faster; direct: never"},
       {.name = "--cpu-isa",
        .target = one_of<std::optional<InstructionSet>>(
            {{"auto", std::nullopt},
             {"base", InstructionSet::base},
             {"v3", InstructionSet::v3},
             {"v4", InstructionSet::v4}},
            [](Options & o) -> auto& { return o.device.cpu_isa; }),
        .on_resume = {Effect::rounding, "device"},
        .help = "largest instruction set to use on a CPU, as a level of x86-64; v3: AVX2; v4: AVX-512, and AMX in "
                "bf16; auto: the CPU's"},
       {.name = "--transport",
        .target = one_of<TransportKind>(
            {{"auto", TransportKind::automatic}, {"nccl", TransportKind::nccl}, {"mpi", TransportKind::mpi}},
            [](Options & o) -> auto& { return o.transport.kind; }),
        .on_resume = Effect::rounding,
        .help =
            "transport of gradients; mpi: from a GPU through host memory; auto: nccl between GPUs, mpi between CPUs"},
       {.name = "--nccl-algo",
        .target = one_of<bool>(
            {{"auto", false}, {"ring", true}}, [](Options & o) -> auto& { return o.transport.nccl_ring; }),
        .on_resume = Effect::rounding,
        .help = "algorithm of NCCL; auto: NCCL's choice; NCCL_ variables of the environment hold too"},
       {.name = "--grad-dtype",
        .target = one_of<GradDType>(
            {{"fp32", GradDType::fp32}, {"bf16", GradDType::bf16}, {"int8", GradDType::int8}},
            [](Options & o) -> auto& { return o.replica.grad_dtype; }),
        .on_resume = Effect::rounding,
        .help =
            "type of gradients in communication; bf16 halves the bytes; int8: a quarter between hosts, in blocks of "
            "256 with error feedback: other results than fp32",
        .conflict = conflict_of_int8},
       {.name = "--zero",
        .target = one_of<bool>(
            {{"0", false}, {"1", true}}, [](Options & o) -> auto& { return o.replica.zero; }),
        .on_resume = Effect::rounding,
        .help = "1: each rank keeps only a part of the optimizer's state (ZeRO stage 1)",
        .conflict = conflict_of_zero},
       {.name = "--share-gpu",
        .target = to([](Options & o) -> auto& { return o.device.share_gpu; }),
        .on_resume = Effect::rounding,
        .help = "several ranks may use one GPU: slow, for tests"},
       {.name = "--deterministic",
        .target = to([](Options & o) -> auto& { return o.device.deterministic; }),
        .on_resume = Effect::rounding,
        .help = "the same bits on every run: no algorithm and no bucket is chosen by measurement"},
       {.name = "--no-graph",
        .target = to_false([](Options & o) -> auto& { return o.device.graphs; }),
        .on_resume = Effect::nothing,
        .help = "launch the kernels of each step one by one, not as a CUDA graph"},
       {.name = "--programmatic-launch",
        .target = to([](Options & o) -> auto& { return o.device.programmatic; }),
        .on_resume = Effect::nothing,
        .help = "start a kernel before the previous one has ended; needs compute capability 9.0"},
       {.name = "--engine-seconds",
        .target = number_or_auto([](Options & o) -> auto& { return o.device.engine_seconds; }),
        .on_resume = Effect::nothing,
        .help = "longest time, s, in which a start measures cuDNN's engines, or which kernels compute a CPU's "
                "convolutions; the other passes get the engine that cuDNN recommends, or the kernels that suit their "
                "shape; auto: 60, on a CPU 2; 0: none is measured",
        .check = auto_or(number(0, 1e9)),
        .condition = kTimesEngines},
       {.name = "--engine-file",
        .target = to([](Options & o) -> auto& { return o.device.engine_file; }),
        .on_resume = Effect::nothing,
        .help = "file with measured engines: a run takes over those of the same device, libraries and precision, and "
                "adds its own",
        .condition = kTimesEngines},
       {.name = "--device-data-mb",
        .target = to([](Options & o) -> auto& { return o.device.data_mb; }),
        .on_resume = Effect::nothing,
        .help = "largest data set, MiB, that stays on a GPU; a larger one streams to it",
        .check = CLI::Range(int64_t{0}, int64_t{1} << 40)},
       {.name = "--step-timeout",
        .target = through<std::string>("auto", set_step_timeout),
        .on_resume = Effect::nothing,
        .help = fmt::format(
            "longest time, s, of a step's phase or of a batch of an evaluation before the job ends with the rank to "
            "blame; auto: 20 times the slowest recent step, at least 60; 0: no limit. Start-up may take {} s and a "
            "save {} s, or this time if it is longer",
            seconds_of(WatchdogLimits().start_up), seconds_of(WatchdogLimits().saving))},
       {.name = "--check-every",
        .target = to([](Options & o) -> auto& { return o.train.check_every; }),
        .on_resume = Effect::nothing,
        .help = "steps between comparisons of all ranks' weights, besides those after each epoch; 0: none",
        .check = CLI::NonNegativeNumber},
       {.name = "--bucket-cap-mb",
        .target = number_or_auto([](Options & o) -> auto& { return o.bucket_cap_mb; }),
        .on_resume = {Effect::rounding, "bucket plan"},
        .help = "largest bucket of gradients, MiB; auto: several ranks measure before the first step which buckets "
                "are fast, unless --first-bucket-mb or --deterministic is given; else 8",
        .check = auto_or(above_0(kMostMiB))},
       {.name = "--first-bucket-mb",
        .target = number_or_auto([](Options & o) -> auto& { return o.first_bucket_mb; }),
        .on_resume = {Effect::rounding, "bucket plan"},
        .help = "largest first bucket, MiB; auto: measured as by --bucket-cap-mb auto, else 1",
        .check = auto_or(above_0(kMostMiB))}}};
}

}  // namespace ddp
