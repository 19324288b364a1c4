#include "nn/model.h"

#include "core/error.h"
#include "device/profile_range.h"
#include "nn/arena.h"

#include <algorithm>

namespace ddp {

Model::Model(const Network& network, std::span<const int64_t> batch_sizes, Device& device, Ops& ops,
             const float* weights, float* gradients)
    : device_(device),
      ops_(ops),
      weights_(weights),
      gradients_(gradients),
      input_image_(network.input()),
      read_image_(network.input()) {
  require(network.output().h == 1 && network.output().w == 1, Exit::model,
          "model {} ends in an image, not in one value for each class", network.name());
  const std::vector<Parameter> parameters = parameters_of(network);
  const std::vector<LayerSpec> specs = network.trimmed_layers();
  if (!specs.empty()) read_image_ = specs[0].input;
  const bool conv_first = !specs.empty() && specs[0].kind == LayerSpec::Kind::conv2d;
  const Conv2dDesc first_desc = conv_first ? conv2d_desc(specs[0], true, {}) : Conv2dDesc{};
  input_format_ = ops.input_format(conv_first ? &first_desc : nullptr, batch_sizes);

  Format format = input_format_;
  for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
    const bool has_gradient = !parameters.empty() && i >= parameters.back().layer;
    const bool first = !parameters.empty() && i == parameters.back().layer;
    auto layer = make_layer(specs[i], i, first, format, parameters, ops, batch_sizes);
    if (layer) format = layer->output_format();
    stages_.push_back({.layer = std::move(layer),
                       .name = fmt::format("{} {}", i, name_of(specs[i].kind)),
                       .image = specs[i].output,
                       .format = format,
                       .has_gradient = has_gradient});
  }
  plan_memory(batch_sizes.empty() ? 0 : *std::max_element(batch_sizes.begin(), batch_sizes.end()));
  bind();
}

// A step runs the stages 0..S-1 at times 0..S-1, the loss at S, and the backward of stage i at 2S-i. A stage's output
// lives from its forward to the last backward that reads it, its gradient from the backward of the next stage (or the
// loss) to its own. Views share the memory of what they view.
void Model::plan_memory(int64_t largest_batch) {
  const int count = static_cast<int>(stages_.size());
  const auto width = static_cast<int64_t>(size_of(ops_.activation_dtype()));
  const auto bytes = [&](ImageShape image, Format f) { return width * stored_elements({largest_batch, image}, f); };
  std::vector<Lifetime> lives;
  int current = 0;  // the life of the value that the stage at hand reads
  std::vector<int> life_of(count), gradient_of(count, -1);
  lives.push_back({bytes(read_image_, input_format_), -1, 0});
  for (int i = 0; i < count; ++i) {
    const Stage& stage = stages_[i];
    if (stage.layer) {
      lives[current].last = std::max(lives[current].last, stage.layer->keeps_input() ? 2 * count - i : i);
      current = static_cast<int>(lives.size());
      lives.push_back({bytes(stage.image, stage.format), i, stage.layer->keeps_output() ? 2 * count - i : i});
    }
    life_of[i] = current;
  }
  lives[current].last = std::max(lives[current].last, count);

  int reader = count;  // the stage whose backward writes the gradient; `count` is the loss
  for (int i = count - 1; i >= 0 && stages_[i].has_gradient; --i) {
    if (!stages_[i].layer) continue;
    gradient_of[i] = static_cast<int>(lives.size());
    lives.push_back({bytes(stages_[i].image, stages_[i].format), 2 * count - reader, 2 * count - i});
    reader = i;
  }

  const Arena arena = plan_arena(lives);
  arena_ = Buffer(device_, static_cast<size_t>(arena.bytes));
  input_offset_ = arena.offsets[0];
  int owner = -1;
  for (int i = 0; i < count; ++i) {
    if (stages_[i].layer) owner = i;
    stages_[i].output = arena.offsets[life_of[i]];
    if (stages_[i].has_gradient) stages_[i].gradient = arena.offsets[gradient_of[owner]];
  }
}

Tensor Model::value(int stage, int64_t n) const {
  const DType dtype = ops_.activation_dtype();
  char* base = arena_.as<char>();
  if (stage < 0) return {base + input_offset_, {n, read_image_}, input_format_, dtype};
  const Stage& s = stages_[stage];
  return {base + s.output, {n, s.image}, s.format, dtype};
}

Tensor Model::gradient(int stage, int64_t n) const {
  if (stage < 0 || !stages_[stage].has_gradient) return {};
  const DType dtype = ops_.activation_dtype();
  const Stage& s = stages_[stage];
  return {arena_.as<char>() + s.gradient, {n, s.image}, s.format, dtype};
}

void Model::bind() {
  for (const Stage& stage : stages_)
    if (stage.layer) stage.layer->bind(weights_);
}

void Model::forward(const Samples& samples) {
  ops_.normalize(samples, input_image_, value(-1, samples.size));
  for (int i = 0; i < static_cast<int>(stages_.size()); ++i) {
    if (!stages_[i].layer) continue;
    const ProfileRange range(device_, stages_[i].name.c_str());
    stages_[i].layer->forward(value(i - 1, samples.size), value(i, samples.size));
    device_.poll();
  }
}

void Model::forward_backward(const Samples& samples, float sample_weight, float* stats, const Announce& announce) {
  const int count = static_cast<int>(stages_.size());
  const int64_t n = samples.size;
  forward(samples);
  ops_.softmax_cross_entropy_backward(value(count - 1, n), samples, sample_weight, gradient(count - 1, n), stats);
  for (int i = count - 1; i >= 0 && stages_[i].has_gradient; --i) {
    if (!stages_[i].layer) continue;
    const ProfileRange range(device_, stages_[i].name.c_str());
    stages_[i].layer->backward(value(i - 1, n), value(i, n), gradient(i, n), gradient(i - 1, n), gradients_, announce);
    device_.poll();
  }
}

void Model::evaluate(const Samples& samples, float* stats) {
  forward(samples);
  ops_.softmax_cross_entropy(value(static_cast<int>(stages_.size()) - 1, samples.size), samples, stats);
}

}  // namespace ddp
