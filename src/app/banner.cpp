#include "app/banner.h"

#include <fmt/ranges.h>

#include <vector>

namespace ddp {
namespace {

// Effects of the options that a user may not expect.
std::string remarks(const Options& o, const Replica& replica) {
  if (replica.batch_norms.empty()) return "";
  const bool one_rank = replica.communicator.size() == 1;
  std::string text;
  if (!o.replica.sync_bn && !one_rank)
    text +=
        "\nbatch norms normalise over each rank's part of a batch: results depend on the number of ranks; --sync-bn "
        "prevents this";
  if (o.train.step.micro_batches > 1)
    text += "\nbatch norms normalise over micro-batches: results differ from those of one large batch";
  return text;
}

}  // namespace

std::string describe_ranks(const Backend& backend, int threads, MpiSession& session) {
  const int world = session.size();
  const std::string transport = describe_transport(backend),
                    ranks = world == 1 ? "1 rank" : fmt::format("{} ranks", world);
  if (backend.device->is_host())
    return fmt::format("{} x {} thread{} on {} ({}), {}{}", ranks, threads, threads == 1 ? "" : "s",
                       backend.device->name(), backend.description, transport,
                       backend.arithmetic.empty() ? "" : ", " + backend.arithmetic);
  std::string text;
  const auto descriptions = session.gather(fmt::format("{}, {}", backend.description, transport));
  for (int r = 0; r < world; ++r) text += fmt::format("rank {} on {}\n", r, descriptions[r]);
  return text + fmt::format("{} in {}", ranks, backend.arithmetic);
}

std::string banner(const Options& o, const Replica& replica, const Datasets& data, const Samplers& samplers,
                   const std::string& ranks, const std::filesystem::path& folder) {
  std::vector<std::string> buckets;
  for (const Bucket& b : replica.plan.buckets)
    buckets.push_back(fmt::format("{:.1f}", static_cast<double>(b.count) * 4 / 1024));
  const std::string micro_batches =
      o.train.step.micro_batches == 1 ? "" : fmt::format(" in {} micro-batches", o.train.step.micro_batches);
  return fmt::format(
      "{} ({} parameters) on {}: {} training and {} test samples\n"
      "{}, buckets of {} KiB{}{}\n"
      "global batch {}{}, {} steps an epoch, {}, seed {}; results in {}{}",
      o.network.name, total_count(replica.parameters), o.data.name, data.train->size(), data.test->size(), ranks,
      fmt::join(buckets, " + "), o.replica.grad_dtype == DType::bf16 ? " in bf16" : "",
      o.replica.zero ? ", optimizer state sharded" : "", o.batch.size, micro_batches, samplers.train.steps_per_epoch(),
      describe(o.train.schedule), o.seed, folder.string(), remarks(o, replica));
}

}  // namespace ddp
