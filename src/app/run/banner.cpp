#include "app/run/banner.h"

#include "app/inputs/model_source.h"
#include "app/run/run_groups.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace ddp {
namespace {

// Such as ", of which 513000 are trained and 11176512 are frozen".
std::string describe_frozen(std::span<const Parameter> parameters) {
  const int64_t trained = total_count(trained_of(parameters)), frozen = total_count(parameters) - trained;
  return frozen == 0 ? "" : fmt::format(", of which {} are trained and {} are frozen", trained, frozen);
}

// Effects of the options that a user may not expect.
std::string remarks(const Options& o, const Replica& replica) {
  std::string text;
  if (replica.mix.any()) text += "\nsamples are mixed in training only: losses of steps are not those of evaluations";
  if (!replica.class_weights.empty()) {
    const auto [least, most] = std::ranges::minmax_element(replica.class_weights);
    text += fmt::format("\nlabels have weights from {:.4g} to {:.4g} in training only", *least, *most);
  }
  if (replica.bn_batch_sums_count() == 0) return text;
  const bool one_rank = replica.communicator.size() == 1;
  if (!o.replica.sync_bn && !one_rank)
    text += fmt::format(
        "\nbatch norms normalise over each rank's part of a batch: results depend on the number of ranks{}; --sync-bn "
        "prevents this",
        o.batch.balanced ? " and, with --rank-weights auto, on their speeds" : "");
  if (o.train.step.micro_batches > 1)
    text += "\nbatch norms normalise over micro-batches: results differ from those of one large batch";
  return text;
}

// Such as "3 buckets by measurement: 5.1 + 498.4 + 0.9 KiB".
std::string describe_buckets(const Options& o, const Replica& replica, bool measured) {
  std::vector<std::string> sizes;
  for (const Bucket& b : replica.plan.buckets)
    sizes.push_back(fmt::format("{:.1f}", static_cast<double>(b.count) * 4 / 1024));
  const std::string how =
      measured ? "by measurement" : fmt::format("by a cap of {:g} MiB", o.bucket_cap_mb.value_or(BucketCaps().cap_mb));
  return fmt::format("{} bucket{} {}: {} KiB", sizes.size(), sizes.size() == 1 ? "" : "s", how,
                     fmt::join(sizes, " + "));
}

}  // namespace

std::string describe_data(const LoadedData& loaded, const PixelNormalization& pixels) {
  const auto& [train, test] = loaded.data;
  std::string text =
      test ? fmt::format("{}: {} training and {} test samples", loaded.kind, train->size(), test->size())
           : fmt::format("{}: {} training samples, no test samples: no evaluation (--val-split gives some)",
                         loaded.kind, train->size());
  if (train->sequence_length() > 0) text += fmt::format(", {}", describe_samples(*train));
  if (!loaded.class_names.empty()) {
    const auto& [h, w, c] = train->image_shape();
    text += fmt::format(" of {} classes, {} x {} x {}", train->classes(), h, w, c);
  }
  if (const std::string input = loaded.input(); !input.empty()) text += "\nimages: " + input;
  if (!pixels.mean.empty())
    text += fmt::format("\npixels: mean {:.4g}, std {:.4g}", fmt::join(pixels.mean, " "), fmt::join(pixels.std, " "));
  if (!pixels.hint.empty()) text += "\n" + pixels.hint;
  for (const std::string& note : loaded.notes) text += "\n" + note;
  return text;
}

std::string describe_ranks(const Backend& backend, const Communicator& communicator, int threads, MpiSession& session) {
  const int world = session.size();
  const std::string transport = describe_transport(backend, communicator),
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

std::string banner(const Options& o, const Replica& replica, bool measured, const LoadedData& data,
                   const PixelNormalization& pixels, const Samplers& samplers, const std::string& ranks,
                   const std::filesystem::path& folder) {
  const std::string micro_batches =
      o.train.step.micro_batches == 1 ? "" : fmt::format(" in {} micro-batches", o.train.step.micro_batches);
  return fmt::format(
      "{} ({} parameters{}) on {}\n"
      "{}, {}{}{}\n{}"
      "global batch {}{}, {} steps an epoch, {}, seed {}; results in {}{}",
      describe(o.network.source), total_count(replica.parameters), describe_frozen(replica.parameters),
      describe_data(data, pixels), ranks, describe_buckets(o, replica, measured), replica.gradient_type(),
      o.replica.zero ? ", optimizer state sharded" : "", describe_groups(o, replica.parameters), o.batch.size,
      micro_batches, samplers.train.steps_per_epoch(), describe(o.train.schedule), o.seed, folder.string(),
      remarks(o, replica));
}

}  // namespace ddp
