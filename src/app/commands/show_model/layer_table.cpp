#include "app/commands/show_model/layer_table.h"

#include "core/printable.h"
#include "nn/flops.h"
#include "nn/layer_text.h"
#include "nn/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

namespace ddp {
namespace {

constexpr size_t kColumns = 8, kFirstNumber = 4, kLastNumber = 6;
using Row = std::array<std::string, kColumns>;

std::string shape_of(const ImageShape& image) { return fmt::format("{} x {} x {}", image.h, image.w, image.c); }

// With few digits where the number is large.
std::string scaled(double value, double unit) {
  if (value == 0) return "";
  const double number = value / unit;
  return fmt::format("{:.{}f}", number, number < 10 ? 3 : 1);
}

double bytes_of(const LayerSpec& layer) {
  return layer.view ? 0 : sizeof(float) * static_cast<double>(layer.output.elements());
}

std::vector<Row> rows_of(const Network& network, const std::vector<int64_t>& parameters) {
  std::vector<Row> rows{{"layer", "kind", "input", "output", "parameters", "MFLOP", "KiB", "fused"}};
  for (size_t i = 0; i < network.layers().size(); ++i) {
    const LayerSpec& layer = network.layers()[i];
    rows.push_back({printable(layer.name), describe(layer), shape_of(layer.input), shape_of(layer.output),
                    parameters[i] == 0 ? "" : fmt::format("{}", parameters[i]), scaled(forward_flops(layer), 1e6),
                    scaled(bytes_of(layer), 1024), describe_fusion(network, static_cast<int>(i))});
  }
  return rows;
}

std::string totals(const Network& network, std::span<const Parameter> parameters) {
  double bytes = 0;
  for (const LayerSpec& layer : network.layers()) bytes += bytes_of(layer);
  const int64_t all = total_count(parameters), trained = total_count(trained_of(parameters));
  const double giga = forward_flops(network) / 1e9;
  return fmt::format(
      "{} layers; {} parameters, of which {} are trained and {} are frozen\n"
      "forward pass of {}: {:.4g} GFLOP ({:.4g} GMAC), outputs of {:.1f} MiB in f32\n",
      network.layers().size(), all, trained, all - trained, network.reads_tokens() ? "a sequence" : "an image", giga,
      giga / 2, bytes / (1 << 20));
}

}  // namespace

std::string layer_table(const Network& network) {
  const std::vector<Parameter> parameters = parameters_of(network);
  std::vector<int64_t> counts(network.layers().size());
  for (const Parameter& p : parameters) counts[static_cast<size_t>(p.layer)] += p.count;
  const std::vector<Row> rows = rows_of(network, counts);
  std::array<size_t, kColumns> widths{};
  for (const Row& row : rows)
    for (size_t k = 0; k < kColumns; ++k) widths[k] = std::max(widths[k], row[k].size());
  std::string text;
  for (const Row& row : rows) {
    for (size_t k = 0; k < kColumns; ++k) {
      const bool number = k >= kFirstNumber && k <= kLastNumber;
      text += number ? fmt::format("{:>{}}  ", row[k], widths[k]) : fmt::format("{:<{}}  ", row[k], widths[k]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text + "\n" + totals(network, parameters);
}

}  // namespace ddp
