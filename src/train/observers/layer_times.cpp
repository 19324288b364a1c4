#include "train/observers/layer_times.h"

#include "nn/layer_text.h"
#include "train/observers/blank_batch.h"
#include "train/observers/layer_clock.h"
#include "train/observers/speed_meter.h"

#include <algorithm>
#include <span>

namespace ddp {
namespace {

constexpr double kLayerPassesMs = 2000, kLeastPassMs = 1e-3;  // a clock may stand still

// One time of the table, and its places in the clock.
struct TableTime {
  std::vector<size_t> places;
  PassTime* time;
};

std::string kind_of(LayerSpec::Kind kind) {
  using enum LayerSpec::Kind;
  switch (kind) {
    case conv2d: return "convolution";
    case batch_norm:
    case layer_norm:
    case group_norm: return "norm";
    case pool2d: return "pool";
    case add:
    case concat:
    case gate: return "join";
    case flatten:
    case tokens: return "copy";
    case stochastic_depth: return "dropout";
    default: return name_of(kind);
  }
}

std::string text_of_fused(const Network& network, int index) {
  std::string text = describe(network.layers()[static_cast<size_t>(index)]);
  for (int i = index + 1; i < std::ssize(network.layers()); ++i)
    if (computed_by(network, i) == index && describe_fusion(network, i).starts_with("into "))
      text += " + " + describe(network.layers()[static_cast<size_t>(i)]);
  return text;
}

// Convolutions and linear layers read weights in the type of the activations; of these, convolutions may leave weight
// gradients in bf16. An embedding moves the rows of its tokens only.
ParameterBytes parameter_bytes(const Replica& replica, const LayerSpec& spec, int index, int64_t output_elements) {
  using enum LayerSpec::Kind;
  const bool multiplies = spec.kind == conv2d || spec.kind == linear;
  const auto weight = static_cast<int64_t>(multiplies ? size_of(replica.ops.activation_dtype()) : sizeof(float));
  const bool in_bf16 = spec.kind == conv2d && replica.model.bf16_gradients();
  const auto gradient = static_cast<int64_t>(in_bf16 ? size_of(DType::bf16) : sizeof(float));
  ParameterBytes bytes;
  for (const Parameter& p : replica.parameters) {
    const bool tied = p.layer == spec.tied && p.role == Parameter::Role::weight;
    if (p.layer != index && !tied) continue;
    const int64_t count = spec.kind == embedding ? std::min(p.count, output_elements) : p.count;
    bytes.weights += weight * count;
    if (p.trained) bytes.gradients += gradient * count;
  }
  return bytes;
}

LayerTime row_of(const Replica& replica, const Network& network, const PlannedLayer& planned, int64_t samples) {
  LayerTime row{.name = planned.range, .what = "copy", .kind = "copy", .output = planned.output};
  LayerWork work = copy_work(planned);
  if (planned.index >= 0) {
    const LayerSpec& spec = network.layers()[static_cast<size_t>(planned.index)];
    using enum LayerSpec::Kind;
    const bool apart =
        (spec.kind == conv2d || spec.kind == linear) && !ids_of_layer(replica.parameters, planned.index).empty();
    row.name = spec.name;
    row.what = text_of_fused(network, planned.index);
    row.kind = kind_of(spec.kind);
    work = layer_work(spec, planned, parameter_bytes(replica, spec, planned.index, samples * planned.output.elements()),
                      apart, samples);
  }
  row.forward.work = work.forward;
  row.weight_gradient.work = work.weight_gradient;
  row.input_gradient.work = work.input_gradient;
  return row;
}

bool has_pass(const PassTime& time) { return time.work.bytes > 0; }

// The times of layer `i`.
void add_times(LayerTime& row, int i, std::vector<TableTime>& times) {
  using Clock = LayerClock;
  const auto at = [&](Clock::OfLayer part) { return Clock::place(i, part); };
  times.push_back({{at(Clock::kForward)}, &row.forward});
  const bool apart = has_pass(row.weight_gradient) && has_pass(row.input_gradient);
  if (apart) {
    times.push_back({{at(Clock::kWeightGradient)}, &row.weight_gradient});
    times.push_back({{at(Clock::kInputGradient)}, &row.input_gradient});
  } else if (has_pass(row.weight_gradient) || has_pass(row.input_gradient)) {
    times.push_back({{at(Clock::kWeightGradient), at(Clock::kInputGradient)},
                     has_pass(row.weight_gradient) ? &row.weight_gradient : &row.input_gradient});
  }
}

// Makes the passes, and sets the times.
int measure_passes(Replica& replica, LayerClock& clock, std::span<const TableTime> table, int most) {
  const double first = slowest_ms(replica, [&] { clock.run(); });
  const int passes =
      static_cast<int>(std::clamp(kLayerPassesMs / std::max(first, kLeastPassMs), 1.0, static_cast<double>(most)));
  std::vector<std::vector<double>> times(table.size());
  for (int pass = 0; pass < passes; ++pass) {
    slowest_ms(replica, [&] { clock.run(); });
    const std::vector<double> ms = clock.download();
    for (size_t i = 0; i < table.size(); ++i) {
      double sum = 0;
      for (const size_t place : table[i].places) sum += ms[place];
      times[i].push_back(sum);
    }
  }
  for (size_t i = 0; i < table.size(); ++i) table[i].time->ms = median(times[i]);
  return passes;
}

}  // namespace

LayerTimes measure_layer_times(Replica& replica, const Network& network, const Dataset& data,
                               const DistributedSampler& sampler, int passes) {
  const BlankBatch blank(replica, data, sampler);
  const int64_t samples = blank.batch.size;
  const Network run = network.trimmed();
  const std::vector<PlannedLayer> planned = replica.model.planned_layers(samples);
  const int count = static_cast<int>(planned.size());
  LayerTimes times{.network = network.name(),
                   .samples = samples,
                   .ranks = replica.communicator.size(),
                   .activations = replica.ops.activation_dtype()};

  const int first = network.reads_tokens() ? 0 : 1;  // row of the first layer
  times.layers.resize(static_cast<size_t>(first + count + 1));
  std::vector<TableTime> table;
  for (int i = 0; i < count; ++i) {
    LayerTime& row = times.layers[static_cast<size_t>(first + i)];
    row = row_of(replica, run, planned[static_cast<size_t>(i)], samples);
    add_times(row, i, table);
  }
  if (first > 0) {
    const double bytes = static_cast<double>(samples * data.sample_bytes() + planned[0].x);
    times.layers[0] = {.name = "input", .what = "normalize", .kind = "input", .output = run.layers()[0].input};
    times.layers[0].forward.work.bytes = bytes;
    table.push_back({{LayerClock::kInput}, &times.layers[0].forward});
  }
  LayerTime& loss = times.layers.back();
  loss = {.name = "loss", .what = "softmax cross-entropy", .kind = "loss", .output = network.output()};
  loss.input_gradient.work.bytes = 2 * static_cast<double>(planned.back().y);
  table.push_back({{LayerClock::kLoss}, &loss.input_gradient});
  PassTime whole;
  table.push_back({{LayerClock::kPass}, &whole});
  {
    LayerClock clock(replica, blank.batch, planned);
    times.passes = measure_passes(replica, clock, table, passes);
  }
  times.pass_ms = whole.ms;
  return times;
}

}  // namespace ddp
