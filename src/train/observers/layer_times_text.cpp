#include "train/observers/layer_times_text.h"

#include "core/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ddp {
namespace {

constexpr size_t kTextColumns = 3;  // aligned left
using TableRow = std::vector<std::string>;

struct KindTimes {
  std::string kind;
  int layers = 0;
  PassTime forward = {}, weight_gradient = {}, input_gradient = {};

  double ms() const { return forward.ms + weight_gradient.ms + input_gradient.ms; }
};

TableRow heading(const char* first, const char* second, const char* third) {
  TableRow row{first, second, third};
  for (const char* pass : {"forward", "weight", "input"})
    row.insert(row.end(), {fmt::format("{} ms", pass), "GFLOP/s", "peak", "memory"});
  return row;
}

std::string share(double value, double whole) { return whole > 0 ? fmt::format("{:.0f} %", 100 * value / whole) : ""; }

void add_cells(TableRow& row, const PassTime& time, const MachineRates& rates) {
  const auto& [flops, bytes] = time.work;
  const double seconds = 1e-3 * time.ms;
  const bool exists = bytes > 0, counts = flops > 0 && seconds > 0;
  row.push_back(exists ? fmt::format("{:.3f}", time.ms) : "");
  row.push_back(counts ? fmt::format("{:.1f}", 1e-9 * flops / seconds) : "");
  row.push_back(counts ? share(flops / seconds, rates.flops_per_second) : "");
  row.push_back(exists && seconds > 0 ? share(bytes / seconds, rates.bytes_per_second) : "");
}

void add(PassTime& sum, const PassTime& time) {
  sum.ms += time.ms;
  sum.work.flops += time.work.flops;
  sum.work.bytes += time.work.bytes;
}

// By kind in the order in which the kinds come; then their sum.
std::vector<KindTimes> sums_of(const std::vector<LayerTime>& layers) {
  std::vector<KindTimes> sums;
  KindTimes all{.kind = "all"};
  for (const LayerTime& layer : layers) {
    auto found = std::ranges::find(sums, layer.kind, &KindTimes::kind);
    if (found == sums.end()) found = sums.insert(found, {.kind = layer.kind});
    for (KindTimes* const sum : {&*found, &all}) {
      ++sum->layers;
      add(sum->forward, layer.forward);
      add(sum->weight_gradient, layer.weight_gradient);
      add(sum->input_gradient, layer.input_gradient);
    }
  }
  sums.push_back(std::move(all));
  return sums;
}

std::string markdown(std::vector<TableRow> rows) {
  std::vector<size_t> widths(rows[0].size());
  for (const TableRow& row : rows)
    for (size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
  TableRow rule;
  for (size_t k = 0; k < widths.size(); ++k)
    rule.push_back(std::string(widths[k] - 1, '-') + (k < kTextColumns ? '-' : ':'));
  rows.insert(rows.begin() + 1, std::move(rule));
  std::string text;
  for (const TableRow& row : rows) {
    for (size_t k = 0; k < row.size(); ++k)
      text +=
          k < kTextColumns ? fmt::format("| {:<{}} ", row[k], widths[k]) : fmt::format("| {:>{}} ", row[k], widths[k]);
    text += "|\n";
  }
  return text;
}

std::string rate_text(double per_second, const char* unit) {
  return per_second > 0 ? fmt::format("{:.1f} {}", 1e-9 * per_second, unit) : fmt::format("no {}", unit);
}

}  // namespace

std::string layer_times_text(const LayerTimes& times, const MachineRates& rates) {
  std::vector<TableRow> layers{heading("layer", "op", "output")}, kinds{heading("kind", "layers", "share")};
  for (const LayerTime& layer : times.layers) {
    const auto& [h, w, c] = layer.output;
    TableRow& row = layers.emplace_back(
        TableRow{printable(layer.name), printable(layer.what), fmt::format("{} x {} x {}", h, w, c)});
    for (const PassTime* const time : {&layer.forward, &layer.weight_gradient, &layer.input_gradient})
      add_cells(row, *time, rates);
  }
  const std::vector<KindTimes> sums = sums_of(times.layers);
  for (const KindTimes& sum : sums) {
    TableRow& row =
        kinds.emplace_back(TableRow{sum.kind, fmt::format("{}", sum.layers), share(sum.ms(), sums.back().ms())});
    for (const PassTime* const time : {&sum.forward, &sum.weight_gradient, &sum.input_gradient})
      add_cells(row, *time, rates);
  }
  return fmt::format(
      "{}: {} samples on rank 0 of {}, activations in {}; medians of {} passes of {:.3f} ms\n"
      "peak: {}, a product of {} x {} matrices; memory: {}, a copy of {} MiB; of rank 0, while all ranks run\n"
      "GFLOP/s count direct convolutions, whatever the algorithm; memory counts each tensor of a pass once. Without a "
      "weight time, input is the whole backward pass.\n\n{}\n{}",
      printable(times.network), times.samples, times.ranks, times.activations == DType::f32 ? "f32" : "bf16",
      times.passes, times.pass_ms, rate_text(rates.flops_per_second, "GFLOP/s"), rates.side, rates.side,
      rate_text(rates.bytes_per_second, "GB/s"), rates.copied >> 20, markdown(std::move(layers)),
      markdown(std::move(kinds)));
}

}  // namespace ddp
