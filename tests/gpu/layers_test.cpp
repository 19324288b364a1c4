// Each layer of a network beside the reference ops, one after another, forward and then backward. Both get the same
// inputs, so the first tensor that differs belongs to the operation that is wrong. The test names it, keeps it and the
// expected one in the folder $DDP_TENSORS, and ends. tests/gpu/check runs it after another test has failed.
#include "nn/init.h"
#include "nn/layer.h"
#include "nn/models.h"
#include "tests/ops/backend.h"

#include <cstdlib>
#include <fstream>

namespace ddp::testing {
namespace {

struct Case {
  const char* model;
  ImageShape input;
  On on = On::every;
};
std::string name_of(const Case& c) {
  std::string name = c.model;
  std::ranges::replace(name, '-', '_');
  return name;
}
void PrintTo(const Case& c, std::ostream* out) { *out << c.model; }

constexpr int64_t kSamples = 2;  // the plain loops of ResNet-18 take a second each

void forward(Layer& layer, const LayerValues& values, const Pass& pass) {
  layer.forward_sum(values, pass);
  layer.forward_reduce(pass);
  layer.forward(values, pass);
}

void backward(Layer& layer, const LayerValues& values, const LayerGradients& gradients, const Pass& pass) {
  layer.backward_sum(values, gradients, pass);
  layer.backward_reduce(pass);
  layer.backward(values, gradients, pass);
}

// The layers of a network on one device, with their flat buffers.
class Layers {
 public:
  Layers(Device& device, Ops& ops, std::span<const LayerSpec> specs, std::span<const Parameter> parameters,
         std::span<const BatchNormState> norms, const Values& weights)
      : weights_(device, weights),
        bf16_(device, std::vector<uint16_t>(weights.size())),
        gradients_(device, Values(weights.size())),
        sums_(device, Values(state_count(norms) + 1)),
        stats_(device, initial_state(norms)),
        epoch_(device, {0}) {
    if (ops.reads_bf16_weights()) ops.to_bf16(weights_.data(), bf16_.data(), std::ssize(weights));
    memory_.weights = weights_.data();
    memory_.gradients = gradients_.data();
    memory_.bn_batch_sums = sums_.data();
    memory_.running_stats = stats_.data();
    const int64_t sizes[] = {kSamples};
    for (size_t i = 0; i < specs.size(); ++i) {
      made_.push_back(make_layer(specs[i], static_cast<int>(i), specs[i].from >= 0, {},
                                 {ops, device, config_, memory_, parameters, norms, sizes}));
      if (made_.back()) made_.back()->bind({weights_.data(), bf16_.data()});
    }
  }

  Layer* at(size_t layer) const { return made_[layer].get(); }
  Pass pass(const int32_t* keys) const {
    return {.kind = Pass::Kind::train,
            .batch = {.keys = keys, .size = kSamples},
            .running_stats = memory_.running_stats,
            .epoch = epoch_.data()};
  }
  Values gradients() const { return gradients_.values(); }

 private:
  OnDevice<float> weights_;
  OnDevice<uint16_t> bf16_;
  OnDevice<float> gradients_, sums_, stats_;
  OnDevice<uint32_t> epoch_;
  ModelConfig config_;
  ModelMemory memory_;
  std::vector<std::unique_ptr<Layer>> made_;
};

class LayersOnDevice : public CaseTest<Case> {
 protected:
  const Network network = make_model(c.model, c.input, 10).trimmed();
  const std::vector<Parameter> parameters = parameters_of(network);
  const std::vector<BatchNormState> norms = batch_norm_states_of(network);
  std::vector<LayerSpec> specs = network.layers();
  std::vector<Values> inputs;  // by layer + 1: its output; the first is the image

  TensorOnDevice on(Device& where, const ImageShape& image, const Values& values, DType dtype) const {
    return {where, {kSamples, image}, {}, dtype, values};
  }

  // False at the first tensor that differs.
  bool agrees(const LayerSpec& spec, const std::string& tensor, const Values& actual, const Values& expected) {
    const double bound = type == DType::bf16 ? 2e-2 : std::max(backend.products, backend.weights);
    const Deviation of = deviation(actual, expected);
    if (within(bound, of)) return true;
    const auto shape = [](const ImageShape& s) { return fmt::format("{}x{}x{}", s.h, s.w, s.c); };
    ADD_FAILURE() << fmt::format(
                         "first difference: {} of {} ({}), {} samples of {} to {}, {}: largest difference {:.3g}",
                         tensor, spec.name, name_of(spec.kind), kSamples, shape(spec.input), shape(spec.output),
                         backend.name, of.largest_error)
                  << fmt::format(" of values up to {:.3g}, {:.3g} of the norm, permitted {:.3g}", of.largest,
                                 of.error / of.norm, bound);
    keep(backend.name + "." + spec.name + "." + tensor + ".f32", actual);
    keep(backend.name + "." + spec.name + "." + tensor + ".expected.f32", expected);
    return false;
  }
  void keep(const std::string& name, const Values& values) const {
    const char* const folder = std::getenv("DDP_TENSORS");
    if (!folder) return;
    std::string file = name;
    std::ranges::replace(file, ' ', '-');
    std::ofstream(folder + ("/" + file), std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()), std::ssize(values) * static_cast<int64_t>(sizeof(float)));
  }
};
constexpr Case kCases[] = {{"lenet", {28, 28, 1}}, {"keras-convnet", {28, 28, 1}}, {"resnet18", {28, 28, 1}, On::gpu}};
INSTANTIATE_TEST_SUITE_P(, LayersOnDevice, on_each_backend(kCases), kCaseName);

TEST_P(LayersOnDevice, EqualTheReference) {
  // The pool and the convolution before it each compute the gradients of the ReLU between them.
  for (LayerSpec& spec : specs) {
    spec.pooled = false;
    spec.pooled_conv = LayerSpec::kNone;
  }
  Values weights(flat_count(parameters));
  initialize(weights, parameters, {}, 0);
  const Layers expected(*host, *reference, specs, parameters, norms, weights);
  const Layers actual(*device, *ops, specs, parameters, norms, weights);
  const std::vector<int32_t> keys{3, 5};
  const OnDevice<int32_t> keys_there(*device, keys);
  const Pass pass = actual.pass(keys_there.data()), pass_here = expected.pass(keys.data());

  inputs.push_back(random(kSamples * specs[0].input.elements(), 1));
  const auto output_of = [&](int layer) -> const Values& { return inputs[layer < 0 ? 0 : layer + 1]; };
  const auto image_of = [&](int layer) { return layer < 0 ? specs[0].input : specs[layer].output; };
  const auto has_skip = [](const LayerSpec& spec) { return spec.skip != LayerSpec::kNone; };
  struct Placed {
    TensorOnDevice x, skip, y;
    LayerValues values(bool skips) const { return {x.tensor(), skips ? skip.tensor() : Tensor{}, y.tensor()}; }
  };
  const auto placed = [&](Device& where, const LayerSpec& spec, const Values& y, DType dtype) {
    return Placed{on(where, spec.input, output_of(spec.from), dtype),
                  on(where, spec.output, has_skip(spec) ? output_of(spec.skip) : y, dtype),
                  on(where, spec.output, y, dtype)};
  };

  for (size_t i = 0; i < specs.size(); ++i) {
    const LayerSpec& spec = specs[i];
    if (!actual.at(i)) {
      inputs.push_back(output_of(spec.from));
      continue;
    }
    const Values nothing(kSamples * spec.output.elements(), std::nanf(""));
    const Placed there = placed(*device, spec, nothing, type), here = placed(*host, spec, nothing, DType::f32);
    forward(*expected.at(i), here.values(has_skip(spec)), pass_here);
    forward(*actual.at(i), there.values(has_skip(spec)), pass);
    if (!agrees(spec, "output", there.y.values(), here.y.values())) return;
    inputs.push_back(rounded(here.y.values(), type));
  }
  for (size_t i = specs.size(); i-- > 0;) {
    const LayerSpec& spec = specs[i];
    if (!actual.at(i)) continue;
    const Values random_dy = random(kSamples * spec.output.elements(), i);
    const Values nothing(kSamples * image_of(spec.from).elements(), std::nanf(""));
    const Placed there = placed(*device, spec, inputs[i + 1], type),
                 here = placed(*host, spec, inputs[i + 1], DType::f32);
    const auto dy = on(*device, spec.output, random_dy, type), dy_here = on(*host, spec.output, random_dy, DType::f32);
    const auto dx = on(*device, spec.input, nothing, type), dx_here = on(*host, spec.input, nothing, DType::f32);
    const bool input_gradient = spec.from >= 0;
    const auto gradients = [&](const Tensor& from, const Tensor& to) {
      return LayerGradients{.dy = from, .more = {}, .dx = input_gradient ? to : Tensor{}, .dskip = {}};
    };
    backward(*expected.at(i), here.values(has_skip(spec)), gradients(dy_here.tensor(), dx_here.tensor()), pass_here);
    backward(*actual.at(i), there.values(has_skip(spec)), gradients(dy.tensor(), dx.tensor()), pass);
    const Values all = actual.gradients(), all_here = expected.gradients();
    for (const Parameter& p : parameters) {
      const bool of_skip = p.layer == spec.skip && p.bias_gradient == LayerSpec::BiasGradient::norm;
      const auto part = [&](const Values& flat) {
        return Values(flat.begin() + p.offset, flat.begin() + p.offset + p.count);
      };
      if (p.layer != static_cast<int>(i) && !of_skip) continue;
      if (!agrees(spec, "gradient of " + p.name, part(all), part(all_here))) return;
    }
    if (input_gradient && !agrees(spec, "input gradient", dx.values(), dx_here.values())) return;
  }
}

}  // namespace
}  // namespace ddp::testing
