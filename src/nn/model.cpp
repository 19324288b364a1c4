#include "nn/model.h"

#include "core/error.h"
#include "device/profile_range.h"

#include <algorithm>

namespace ddp {

Model::Model(const Network& network, std::span<const Parameter> parameters, std::span<const BatchNormState> batch_norms,
             std::span<const int64_t> batch_sizes, Device& device, Ops& ops, const ModelMemory& memory,
             const ModelConfig& config)
    : device_(device),
      ops_(ops),
      memory_(memory),
      config_(config),
      input_image_(network.input()),
      read_image_(network.input()),
      reads_tokens_(network.reads_tokens()),
      parameters_(flat_count(parameters)),
      bf16_weights_(ops.reads_bf16_weights() ? Buffer(device, parameters_ * size_of(DType::bf16)) : Buffer()),
      bf16_gradients_(ops.reads_bf16_weights() && !config.inference
                          ? Buffer(device, flat_count(trained_of(parameters)) * size_of(DType::bf16))
                          : Buffer()) {
  const int64_t positions = network.reads_tokens() ? network.input().h : 1;
  require(
      !network.layers().empty() && network.output().h == positions && network.output().w == 1, Exit::model,
      "model {} ends in an image of {}x{}x{}, not in one value per class; put a flatten or a global pooling before its "
      "last linear layer",
      network.name(), network.output().h, network.output().w, network.output().c);
  require(network.ends_in_last_layer(), Exit::model, "model {}: its last layer must give the output", network.name());
  plan(network, parameters, batch_norms, batch_sizes);
}

void Model::plan(const Network& network, std::span<const Parameter> parameters,
                 std::span<const BatchNormState> batch_norms, std::span<const int64_t> batch_sizes) {
  stages_.clear();
  const std::vector<LayerSpec> specs = network.trimmed().layers();
  if (const int unread = network.unread_layer(); unread >= 0)
    fail(Exit::model, "model {}: no layer reads the output of layer {} ({}); join it or remove it", network.name(),
         specs[unread].name, name_of(specs[unread].kind));
  read_image_ = specs[0].input;
  const bool dense = network.prefers_dense();
  const bool conv_first = specs[0].kind == LayerSpec::Kind::conv2d;
  const Conv2dDesc first_desc = conv_first ? conv2d_desc(specs[0], false, {}, dense) : Conv2dDesc{};
  input_format_ = dense ? Format{} : ops_.input_format(conv_first ? &first_desc : nullptr, batch_sizes);

  // Without batch norms, a segment would be the whole network, and announce all gradients in its last slice.
  const bool slices = ops_.slice_bytes() > 0 && !config_.inference && !dense && !batch_norms.empty() &&
                      input_format_.kind != Format::Kind::batch_interleaved;
  const LayerContext context{ops_, device_, config_, memory_, parameters, batch_norms, batch_sizes, dense, slices};
  const auto has_gradient = [&](int stage) { return stage >= 0 && stages_[stage].has_gradient; };
  const auto format_of = [&](int stage) { return stage < 0 ? input_format_ : stages_[stage].format; };
  const auto image_of = [&](int stage) { return stage < 0 ? read_image_ : stages_[stage].image; };
  // The stage that has the value of `stage` in another format; a copy if that is necessary.
  const auto in_format = [&](int stage, Format format, const std::string& reader) {
    if (stage == LayerSpec::kNone || format_of(stage) == format) return stage;
    stages_.push_back({.layer = make_reorder_layer(ops_, format),
                       .name = fmt::format("{} input", reader),
                       .from = stage,
                       .image = image_of(stage),
                       .format = format,
                       .has_gradient = has_gradient(stage)});
    return static_cast<int>(stages_.size()) - 1;
  };
  std::vector<int> stage_of;  // by layer
  const auto stage_at = [&](int layer) { return layer < 0 ? layer : stage_of[static_cast<size_t>(layer)]; };
  for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
    const LayerSpec& spec = specs[i];
    const int from =
        in_format(stage_at(spec.from), input_format_of(spec, format_of(stage_at(spec.from)), dense), spec.name);
    Format format = format_of(from);
    const int skip = in_format(stage_at(spec.skip), format, spec.name);
    const bool is_trained = !ids_of_layer(parameters, i).empty();
    auto layer = make_layer(spec, i, has_gradient(from), format, context);
    if (layer) format = layer->output_format();
    // A reshape that is a view yields the dense format, except from a batch-interleaved input.
    if (!layer && is_reshape(spec) && format.kind == Format::Kind::blocked_channels) format = {};
    stage_of.push_back(static_cast<int>(stages_.size()));
    stages_.push_back({.layer = std::move(layer),
                       .name = fmt::format("{} {}", spec.name, name_of(spec.kind)),
                       .index = i,
                       .from = from,
                       .skip = skip,
                       .image = spec.output,
                       .format = format,
                       .has_gradient = !config_.inference && (has_gradient(from) || has_gradient(skip) || is_trained)});
  }
  require(format_of(static_cast<int>(stages_.size()) - 1).kind != Format::Kind::blocked_channels, Exit::model,
          "model {}: add flatten() after the last layer", network.name());
  plan_memory(batch_sizes.empty() ? 0 : *std::max_element(batch_sizes.begin(), batch_sizes.end()));
  bind();
}

void Model::plan_memory(int64_t largest_batch) {
  std::vector<PlannedStage> planned;
  for (int i = 0; i < std::ssize(stages_); ++i) {
    const Stage& s = stages_[static_cast<size_t>(i)];
    planned.push_back({.bytes = bytes(i, largest_batch),
                       .view = !s.layer,
                       .from = s.from,
                       .skip = s.skip,
                       .saves_input = s.has_gradient && s.layer && s.layer->saves_input(),
                       .saves_output = s.has_gradient && s.layer && s.layer->saves_output(),
                       .has_gradient = s.has_gradient,
                       .separates_skip = s.layer && s.layer->separates_skip(),
                       .slices = s.layer ? s.layer->slices() : SliceSamples{},
                       .sums = s.layer && s.layer->has_sums(),
                       .recomputes = s.layer && s.layer->recomputes(),
                       .reads_gradient_twice = s.layer && s.layer->reads_gradient_twice()});
    if (s.layer) last_ = i;
  }
  plan_ = ddp::plan_memory(bytes(LayerSpec::kImage, largest_batch), planned,
                           {.batch = largest_batch, .bytes = ops_.slice_bytes()});
  whole_traffic_ = plan_.traffic;
  if (std::ranges::any_of(planned, [](const PlannedStage& s) { return s.slices.forward > 0; })) {
    for (PlannedStage& stage : planned) stage.slices = {};
    whole_traffic_ = ddp::plan_memory(bytes(LayerSpec::kImage, largest_batch), planned).traffic;
  }
  const auto needed = static_cast<size_t>(plan_.bytes);
  const bool shared = memory_.arena && memory_.arena->bytes() >= needed;
  if (!shared && own_arena_.bytes() < needed) own_arena_ = Buffer(device_, needed);
  arena_ = (shared ? *memory_.arena : own_arena_).as<char>();
}

int64_t Model::bytes(int stage, int64_t n) const {
  const bool image = stage < 0;
  const Shape shape{n, image ? read_image_ : stages_[stage].image};
  return static_cast<int64_t>(size_of(ops_.activation_dtype())) *
         stored_elements(shape, image ? input_format_ : stages_[stage].format);
}

Tensor Model::at(int stage, const Place& place, const Slice& slice) const {
  if (place.offset < 0) return {};
  const bool image = stage < 0;
  return {arena_ + place.offset + (place.of_slice ? 0 : bytes(stage, slice.first)),
          {slice.samples, image ? read_image_ : stages_[stage].image},
          image ? input_format_ : stages_[stage].format,
          ops_.activation_dtype()};
}

Tensor Model::value(int stage, int64_t n) const {
  return at(stage, stage < 0 ? plan_.image : plan_.value[stage], {0, n});
}

LayerValues Model::values(int stage, const Slice& slice, bool in_backward) const {
  const auto value = [&](int i) {
    if (i == LayerSpec::kNone) return Tensor{};
    return at(i, i < 0 ? plan_.image : in_backward ? plan_.recomputed[i] : plan_.value[i], slice);
  };
  return {value(stages_[stage].from), value(stages_[stage].skip), value(stage)};
}

std::vector<PlannedLayer> Model::planned_layers(int64_t samples) const {
  std::vector<PlannedLayer> planned;
  for (int i = 0; i < static_cast<int>(stages_.size()); ++i) {
    const Stage& stage = stages_[i];
    if (!stage.layer) continue;
    const int64_t x = bytes(stage.from, samples), y = bytes(i, samples),
                  skip = stage.skip == LayerSpec::kNone ? 0 : bytes(stage.skip, samples);
    const auto terms = stage.has_gradient ? std::ssize(plan_.gradient[i]) : 0;
    planned.push_back({.range = stage.name.c_str(),
                       .index = stage.index,
                       .output = stage.image,
                       .x = x,
                       .skip = skip,
                       .y = y,
                       .dy = terms * y,
                       .dx = plan_.from_gradient[i].offset < 0 ? 0 : x,
                       .dskip = plan_.skip_gradient[i].offset < 0 ? 0 : skip,
                       .saves_x = stage.layer->saves_input(),
                       .saves_y = stage.layer->saves_output()});
  }
  return planned;
}

void Model::bind(bool rounded, bool trained_only) {
  if (bf16_weights() && !rounded) ops_.to_bf16(memory_.weights, bf16_weights(), parameters_);
  for (const Stage& stage : stages_)
    if (stage.layer && (!trained_only || stage.layer->trains())) stage.layer->bind({memory_.weights, bf16_weights()});
}

Augmentation Model::augmentation_in(const Pass& pass) const {
  if (pass.kind == Pass::Kind::evaluate) return {};
  Augmentation augmentation = config_.augmentation;
  augmentation.seed = config_.seed;
  augmentation.epoch = pass.epoch;
  return augmentation;
}

void Model::forward(const Pass& pass) {
  const ProfileRange whole(device_, "forward");
  const int64_t n = pass.batch.size;
  if (n > 0 && !reads_tokens_)
    ops_.normalize(pass.batch, input_image_, config_.pixel_scale, augmentation_in(pass), value(LayerSpec::kImage, n));
  for (const Segment& segment : plan_.segments.forward) run(segment, pass, false);
}

void Model::run(const Segment& segment, const Pass& pass, bool in_backward) {
  const int64_t n = pass.batch.size;
  for (const int stage : segment.reduces) {
    const ProfileRange range(device_, stages_[stage].name.c_str());
    Layer& layer = *stages_[stage].layer;
    in_backward ? layer.backward_reduce(pass) : layer.forward_reduce(pass);
    device_.poll();
  }
  if (n == 0) {  // the same collectives and calls of gradient_ready
    for (const SegmentStep& step : segment.steps) {
      const ProfileRange range(device_, stages_[step.stage].name.c_str());
      if (step.part == SegmentStep::Part::backward) stages_[step.stage].layer->backward_empty(pass);
      device_.poll();
    }
    return;
  }
  const int64_t samples = segment.sliced ? segment.samples : n;
  Pass part = pass;
  for (int64_t first = 0; first < n; first += samples) {
    part.first = first == 0;
    part.last = first + samples >= n;
    for (const SegmentStep& step : segment.steps) {
      const ProfileRange range(device_, stages_[step.stage].name.c_str());
      run(step, {first, std::min(samples, n - first)}, part, in_backward);
      device_.poll();  // moves the collectives forward
    }
  }
}

void Model::run(const SegmentStep& step, const Slice& slice, const Pass& pass, bool in_backward) {
  Layer& layer = *stages_[step.stage].layer;
  const LayerValues v = values(step.stage, slice, in_backward);
  switch (step.part) {
    using enum SegmentStep::Part;
    case sum: return layer.forward_sum(v, pass);
    case forward: return layer.forward(v, pass);
    case backward_sum: return layer.backward_sum(v, gradients(step.stage, slice, step.part), pass);
    case backward: return layer.backward(v, gradients(step.stage, slice, step.part), pass);
  }
}

// A sum has no input gradients yet, and leaves the gradient of the value in the first term.
LayerGradients Model::gradients(int stage, const Slice& slice, SegmentStep::Part part) const {
  const std::vector<Place>& terms = plan_.gradient[stage];
  const Layer& layer = *stages_[stage].layer;
  const bool is_sum = part == SegmentStep::Part::backward_sum;
  const Tensor dy = at(stage, terms[0], slice);
  size_t count = is_sum || !layer.has_sums() ? terms.size() : 1;
  for (; count > (layer.accepts_split_gradient() ? 2u : 1u); --count)
    ops_.add(dy, at(stage, terms[count - 1], slice), dy);
  LayerGradients gradients{.dy = dy, .more = count > 1 ? at(stage, terms[1], slice) : Tensor{}, .dx = {}, .dskip = {}};
  if (is_sum) return gradients;
  gradients.dx = at(stages_[stage].from, plan_.from_gradient[stage], slice);
  gradients.dskip = at(stages_[stage].skip, plan_.skip_gradient[stage], slice);
  return gradients;
}

void Model::forward_backward(const DeviceBatch& batch, const GradientReady& gradient_ready) {
  DDP_EXPECT(batch.plan.step_size > 0 && !config_.inference);
  const Pass pass{.kind = Pass::Kind::train,
                  .batch = batch,
                  .mode = batch.plan.micro == 0 ? Gradient::overwrite : Gradient::add,
                  .running_stats = memory_.running_stats,
                  .epoch = memory_.epoch,
                  .gradient_ready = gradient_ready ? &gradient_ready : nullptr,
                  .bf16_gradients = gradient_ready ? bf16_gradients_.as<uint16_t>() : nullptr};
  const int64_t n = batch.size;
  left_in_bf16_ = pass.bf16_gradients && n > 0 ? std::optional(pass.mode) : std::nullopt;
  forward(pass);
  // step_size counts the samples of the whole step: all ranks, all micro-batches. Nothing else divides the loss.
  const auto sample_weight = static_cast<float>(1.0 / static_cast<double>(batch.plan.step_size));
  const ProfileRange whole(device_, "backward");
  if (n > 0)
    ops_.softmax_cross_entropy_backward(value(last_, n), batch, sample_weight, config_.label_smoothing,
                                        at(last_, plan_.gradient[last_][0], {0, n}), memory_.loss_stats, pass.mode);
  for (const Segment& segment : plan_.segments.backward) run(segment, pass, true);
}

void Model::precise_bn(const DeviceBatch& batch, Gradient mode) {
  forward({.kind = Pass::Kind::precise_bn, .batch = batch, .mode = mode, .running_stats = memory_.running_stats});
}

Tensor Model::logits(const DeviceBatch& batch, const float* running_stats) {
  DDP_EXPECT(batch.size > 0);
  forward({.kind = Pass::Kind::evaluate, .batch = batch, .running_stats = running_stats});
  return value(last_, batch.size);
}

void Model::evaluate(const DeviceBatch& batch, const float* running_stats, float* loss_stats, RankedClass* ranked) {
  ops_.softmax_cross_entropy(logits(batch, running_stats), batch, loss_stats, ranked);
}

}  // namespace ddp
