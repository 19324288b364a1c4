#include "app/run/single_values.h"

#include "core/error.h"
#include "data/sampler.h"

#include <algorithm>

namespace ddp {
namespace {

std::optional<std::string> first_norm_of_one_position(const Network& network) {
  for (const LayerSpec& layer : network.layers())
    if (layer.kind == LayerSpec::Kind::batch_norm && !layer.is_frozen_norm() && layer.output.h * layer.output.w == 1)
      return layer.name;
  return std::nullopt;
}

// The first rank with one sample in a micro-batch of this step.
std::optional<int> rank_with_one_sample(const BatchDivision& d, int64_t step) {
  const int world = static_cast<int>(d.rank_weights.size());
  const DistributedSampler sampler(d.samples, d.batch, Order::sequential, 0, 0, d.rank_weights, d.micro_batches);
  for (int micro = 0; micro < d.micro_batches; ++micro) {
    const int64_t size = sampler.micro_batch(step, micro).size();
    if (d.sync_bn && size == 1) return 0;
    for (int rank = 0; !d.sync_bn && rank < world; ++rank)
      if (shard_range(size, rank, d.rank_weights).size() == 1) return rank;
  }
  return std::nullopt;
}

int64_t last_step(const BatchDivision& d) { return (d.samples - 1) / d.batch; }

bool has_none(const BatchDivision& d) { return !rank_with_one_sample(d, 0) && !rank_with_one_sample(d, last_step(d)); }

std::optional<int64_t> larger_batch(BatchDivision d) {
  constexpr int64_t kMost = 4096;  // candidates
  for (const int64_t end = std::min(d.samples, d.batch + kMost); d.batch < end;) {
    ++d.batch;
    if (has_none(d)) return d.batch;
  }
  return std::nullopt;
}

}  // namespace

std::optional<SingleValue> find_single_value(const Network& network, const BatchDivision& division) {
  DDP_EXPECT(division.batch > 0 && !division.rank_weights.empty());
  const auto layer = first_norm_of_one_position(network);
  if (!layer || division.samples == 0) return std::nullopt;
  const int64_t last = last_step(division);
  const auto always = rank_with_one_sample(division, 0), at_the_end = rank_with_one_sample(division, last);
  if (!always && !at_the_end) return std::nullopt;
  BatchDivision synchronized = division;
  synchronized.sync_bn = true;
  return SingleValue{.layer = *layer,
                     .rank = always ? *always : *at_the_end,
                     .batch = std::min(division.batch, division.samples - (always ? 0 : last * division.batch)),
                     .every_step = always.has_value(),
                     .sync_bn_helps = !rank_with_one_sample(synchronized, always ? 0 : last),
                     .another_batch = larger_batch(division)};
}

std::string explain(const SingleValue& found, const BatchDivision& division) {
  const bool together = division.sync_bn && division.rank_weights.size() > 1;
  std::string remedy = found.sync_bn_helps ? "--sync-bn" : "";
  if (found.another_batch)
    remedy += fmt::format("{}another --batch-size, such as {}", remedy.empty() ? "" : " or ", *found.another_batch);
  return fmt::format(
      "batch norm {} normalises a single value in {}: {} one sample of the batch of {}{}, with 1 x 1 positions there; "
      "the value becomes 0, so no layer before it learns from that sample; {}",
      found.layer, found.every_step ? "every step" : "the last step of each epoch",
      together ? "all ranks have together" : fmt::format("rank {} has", found.rank), found.batch,
      division.micro_batches > 1 ? fmt::format(" in {} micro-batches", division.micro_batches) : "",
      remedy.empty() ? "use larger images, or more training samples" : "give " + remedy);
}

}  // namespace ddp
