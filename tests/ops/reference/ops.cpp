#include "tests/ops/reference/ops.h"

#include "core/bf16.h"
#include "core/philox.h"
#include "tests/ops/reference/activation.h"
#include "tests/ops/reference/dense.h"
#include "tests/ops/reference/plans.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace ddp {
namespace {

using reference::expect_dense, reference::store;

class ReferenceGradientScan final : public GradientScan {
 public:
  explicit ReferenceGradientScan(std::span<const ScannedTensor> tensors) : tensors_(tensors.begin(), tensors.end()) {}

  void run(const ScannedPart& part, float* flag, float* squares, Gradient squares_mode) override {
    double sum = squares_mode == Gradient::add ? static_cast<double>(*squares) : 0.0;
    for (const ScannedTensor& t : tensors_) {
      if (t.offset < part.begin || t.offset >= part.begin + part.count) continue;
      for (int64_t i = t.offset; i < t.offset + t.count; ++i) {
        float& g = part.gradients[i];
        if (t.bf16 && part.bf16) g = (part.mode == Gradient::add ? g : 0.0f) + float_of_bf16(part.bf16[i]);
        if (!std::isfinite(g) && *flag == 0) *flag = t.mark;
        sum += static_cast<double>(g) * g;
      }
    }
    *squares = static_cast<float>(sum);
  }

 private:
  std::vector<ScannedTensor> tensors_;
};

class ReferenceOps final : public Ops {
 public:
  explicit ReferenceOps(Device& device) : device_(device) {}

  std::unique_ptr<Conv2d> conv2d(const Conv2dDesc& desc, std::span<const int64_t>) override {
    return reference::make_conv2d(device_, desc);
  }
  std::unique_ptr<Linear> linear(const LinearDesc& desc, std::span<const int64_t>) override {
    return reference::make_linear(device_, desc);
  }
  std::unique_ptr<Pool2d> pool2d(const Pool2dDesc& desc, std::span<const int64_t>) override {
    return reference::make_pool2d(device_, desc);
  }
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormDesc& desc, std::span<const int64_t>) override {
    return reference::make_batch_norm(device_, desc);
  }
  std::unique_ptr<LayerNorm> layer_norm(const LayerNormDesc& desc, std::span<const int64_t>) override {
    return reference::make_layer_norm(device_, desc);
  }
  std::unique_ptr<Attention> attention(const AttentionDesc& desc, std::span<const int64_t>) override {
    return reference::make_attention(device_, desc);
  }
  std::unique_ptr<RunningStats> running_stats(std::span<const RunningStatsSpan> layers) override {
    return reference::make_running_stats(layers);
  }
  std::unique_ptr<OptimizerOp> optimizer(const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors) override {
    return reference::make_optimizer(desc, tensors);
  }
  std::unique_ptr<GradientScan> gradient_scan(std::span<const ScannedTensor> tensors) override {
    return std::make_unique<ReferenceGradientScan>(tensors);
  }
  std::unique_ptr<TensorHash> tensor_hash(std::span<const HashedSpan> tensors) override {
    return reference::make_tensor_hash(tensors);
  }
  DType activation_dtype() const override { return DType::f32; }
  Format input_format(const Conv2dDesc*, std::span<const int64_t>) const override { return {}; }

  void reorder(const Tensor& from, const Tensor& to) override {
    expect_dense(from);
    expect_dense(to);
    std::copy_n(from.f32(), from.shape.elements(), to.f32());
  }
  // Pads the image, crops it, flips it, normalizes the top left part, and erases its box.
  void normalize(const DeviceBatch& batch, const ImageShape& image, const PixelScale& scale,
                 const Augmentation& augmentation, const Tensor& x) override {
    expect_dense(x);
    if (batch.mix) return normalize_mixed(batch, image, scale, augmentation, x);
    const auto& [h, w, channels] = x.shape.image;
    const int64_t padding = augmentation.crop_padding, padded_w = image.w + 2 * padding;
    const uint32_t epoch = augmentation.epoch ? *augmentation.epoch : 0;
    const auto mirrored = [](int64_t at, int64_t extent) {
      return at < 0 ? -at : at >= extent ? 2 * extent - 2 - at : at;
    };
    for (int64_t n = 0; n < x.shape.n; ++n) {
      const uint8_t* const pixels = batch.samples + batch.id(n) * image.elements();
      const auto random = [&](Operation operation, uint32_t of_epoch) {
        return philox4x32(
            {{0, static_cast<uint32_t>(batch.keys ? batch.keys[n] : 0), of_epoch, static_cast<uint32_t>(operation)}},
            augmentation.seed);
      };
      std::vector<uint8_t> padded((image.h + 2 * padding) * padded_w * channels);
      for (int64_t p = 0; p < std::ssize(padded); ++p) {
        int64_t i = p / channels / padded_w - padding, j = p / channels % padded_w - padding;
        if (augmentation.reflect) {
          i = mirrored(i, image.h);
          j = mirrored(j, image.w);
        }
        if (i >= 0 && i < image.h && j >= 0 && j < image.w)
          padded[p] = pixels[(i * image.w + j) * channels + p % channels];
      }
      const Bits128 crop = random(Operation::padded_crop, epoch);
      const auto choices = static_cast<uint64_t>(2 * padding + 1);
      const auto top = static_cast<int64_t>(crop.word[0] * choices >> 32),
                 left = static_cast<int64_t>(crop.word[1] * choices >> 32);
      bool flipped = random(Operation::flip, epoch).word[0] < augmentation.hflip * 0x1p32;
      if (augmentation.alternate_flip) flipped = (random(Operation::flip, 0).word[0] < 0x1p31) == (epoch % 2 == 0);
      for (int64_t e = 0; e < x.shape.image.elements(); ++e) {
        const int64_t c = e % channels, j = e / channels % w, i = e / channels / w;
        const int64_t column = flipped ? image.w - 1 - j : j, entry = c < 3 ? c : 0;
        const double pixel = padded[((top + i) * padded_w + left + column) * channels + c];
        x.f32()[n * h * w * channels + e] =
            static_cast<float>(pixel * static_cast<double>(scale.scale[entry]) + scale.shift[entry]);
      }
      erase(augmentation, epoch, batch.keys ? batch.keys[n] : 0, image, x, n);
    }
  }
  void relu(const Tensor& x, const Tensor& y) override {
    for (int64_t i = 0; i < x.shape.elements(); ++i) y.f32()[i] = std::max(x.f32()[i], 0.0f);
  }
  void relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override {
    for (int64_t i = 0; i < y.shape.elements(); ++i) dx.f32()[i] = y.f32()[i] <= 0 ? 0.0f : dy.f32()[i];
  }
  void activation(const Activation& activation, const Tensor& x, const Tensor& y) override {
    for (int64_t i = 0; i < x.shape.elements(); ++i)
      y.f32()[i] = static_cast<float>(reference::value_of(activation, x.f32()[i]));
  }
  void activation_backward(const Activation& activation, const Tensor& x, const Tensor& dy, const Tensor& dx) override {
    for (int64_t i = 0; i < x.shape.elements(); ++i)
      dx.f32()[i] = static_cast<float>(dy.f32()[i] * reference::derivative_at(activation, x.f32()[i]));
  }
  void add(const Tensor& a, const Tensor& b, const Tensor& y) override {
    for (int64_t i = 0; i < y.shape.elements(); ++i) y.f32()[i] = a.f32()[i] + b.f32()[i];
  }
  void dropout(const Dropout& dropout, const Tensor& x, const DeviceBatch& batch, const Tensor& y) override {
    expect_dense(x);
    expect_dense(y);
    const int64_t elements = x.shape.image.elements();
    const double threshold = dropout.rate * 0x1p32, kept = 1 / (1 - static_cast<double>(dropout.rate));
    for (int64_t n = 0; n < x.shape.n; ++n)
      for (int64_t e = 0; e < elements; ++e) {
        const int64_t drawn = dropout.whole_sample ? 0 : e;
        const Bits128 random =
            philox4x32({{static_cast<uint32_t>(drawn / 4), static_cast<uint32_t>(batch.keys[n]), *dropout.epoch,
                         static_cast<uint32_t>(Operation::dropout) + 256 * dropout.layer}},
                       dropout.seed);
        y.f32()[n * elements + e] =
            static_cast<float>(x.f32()[n * elements + e] * (random.word[drawn % 4] >= threshold ? kept : 0.0));
      }
  }

  void embedding(const DeviceBatch& batch, const float* table, const Tensor& y) override {
    expect_dense(y);
    const int64_t c = y.shape.image.c, length = batch.sequence_length;
    for (int64_t i = 0; i < y.shape.elements(); ++i)
      y.f32()[i] = table[batch.tokens()[batch.id(i / c / length) * (length + 1) + i / c % length] * c + i % c];
  }
  void embedding_backward(const DeviceBatch& batch, const Tensor& dy, int64_t rows, float* dtable,
                          Gradient mode) override {
    expect_dense(dy);
    const int64_t c = dy.shape.image.c, length = batch.sequence_length;
    std::vector<double> sums(static_cast<size_t>(rows * c));
    for (int64_t i = 0; i < dy.shape.elements(); ++i)
      sums[batch.tokens()[batch.id(i / c / length) * (length + 1) + i / c % length] * c + i % c] += dy.f32()[i];
    for (int64_t i = 0; i < rows * c; ++i) store(dtable + i, sums[i], mode);
  }
  void copy_channels(const Tensor& from, int64_t first, const Tensor& to, int64_t to_first, int64_t count) override {
    expect_dense(from);
    expect_dense(to);
    const int64_t a = from.shape.image.c, b = to.shape.image.c;
    for (int64_t row = 0; row < from.shape.elements() / a; ++row)
      for (int64_t k = 0; k < count; ++k) to.f32()[row * b + to_first + k] = from.f32()[row * a + first + k];
  }
  void set_channels(const float* values, const Tensor& y, int64_t first, int64_t count) override {
    expect_dense(y);
    const int64_t c = y.shape.image.c;
    for (int64_t row = 0; row < y.shape.elements() / c; ++row)
      for (int64_t k = 0; k < count; ++k) y.f32()[row * c + first + k] = values ? values[k] : 0;
  }
  void sum_channels(const Tensor& dy, int64_t first, int64_t count, float* sums, Gradient mode) override {
    expect_dense(dy);
    const int64_t c = dy.shape.image.c;
    for (int64_t k = 0; k < count; ++k) {
      double sum = 0;
      for (int64_t row = 0; row < dy.shape.elements() / c; ++row)
        sum += static_cast<double>(dy.f32()[row * c + first + k]);
      store(sums + k, sum, mode);
    }
  }
  void gate(const Tensor& x, const Tensor& s, const Tensor& y) override {
    expect_dense(x);
    const int64_t sample = x.shape.image.elements(), c = x.shape.image.c;
    for (int64_t i = 0; i < x.shape.elements(); ++i) y.f32()[i] = x.f32()[i] * s.f32()[i / sample * c + i % c];
  }
  void gate_backward(const Tensor& x, const Tensor& s, const Tensor& dy, const Tensor& dx, const Tensor& ds) override {
    expect_dense(x);
    const int64_t sample = x.shape.image.elements(), c = x.shape.image.c;
    for (int64_t i = 0; ds.data && i < s.shape.elements(); ++i) {
      double sum = 0;
      for (int64_t at = i / c * sample + i % c; at < (i / c + 1) * sample; at += c)
        sum += static_cast<double>(dy.f32()[at]) * x.f32()[at];
      ds.f32()[i] = static_cast<float>(sum);
    }
    if (dx.data) gate(dy, s, dx);
  }
  void scale_channels(const Tensor& x, const float* scale, const float* shift, const Tensor& y) override {
    expect_dense(x);
    const int64_t c = x.shape.image.c;
    for (int64_t i = 0; i < x.shape.elements(); ++i)
      y.f32()[i] = x.f32()[i] * (scale ? scale[i % c] : 1) + (shift ? shift[i % c] : 0);
  }
  void scale_channels_backward(const Tensor& x, const float* scale, const Tensor& dy, const Tensor& dx, float* dscale,
                               Gradient mode) override {
    const int64_t c = dy.shape.image.c;
    for (int64_t k = 0; dscale && k < c; ++k) {
      double sum = 0;
      for (int64_t i = k; i < dy.shape.elements(); i += c) sum += static_cast<double>(dy.f32()[i]) * x.f32()[i];
      store(dscale + k, sum, mode);
    }
    if (dx.data) scale_channels(dy, scale, nullptr, dx);
  }

  void softmax_cross_entropy(const Tensor& logits, const DeviceBatch& batch, float* stats,
                             RankedClass* ranked) override {
    softmax(logits, batch, 0, 0, nullptr, stats, Gradient::overwrite);
    const int64_t classes = logits.shape.image.c;
    for (int64_t n = 0; ranked && n < logits.shape.n; ++n) {  // sorts the classes
      const float* z = logits.f32() + n * classes;
      std::vector<int32_t> order(classes);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return z[a] > z[b]; });
      const int32_t of_label = batch.labels[batch.id(n)];
      const auto label = std::find(order.begin(), order.end(), of_label);
      ranked[n] = {order[0], static_cast<int32_t>(label - order.begin())};
      if (of_label == kExcludedLabel) ranked[n] = {-1, -1};
    }
  }
  void softmax_cross_entropy_backward(const Tensor& logits, const DeviceBatch& batch, float scale, float smoothing,
                                      const Tensor& dlogits, float* stats, Gradient mode) override {
    softmax(logits, batch, scale, smoothing, dlogits.f32(), stats, mode);
  }

  void flag_nonfinite(const float* values, int64_t count, float mark, float* flag) override {
    if (*flag == 0 && std::any_of(values, values + count, [](float v) { return !std::isfinite(v); })) *flag = mark;
  }
  void copy_or_add(const float* from, float* to, int64_t count, Gradient mode) override {
    for (int64_t i = 0; i < count; ++i) to[i] = mode == Gradient::add ? to[i] + from[i] : from[i];
  }
  void lerp(const float* from, float* to, int64_t count, float rate, std::span<const float> skip) override {
    if (std::ranges::any_of(skip, [](float value) { return value != 0; })) return;
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<float>((1.0 - rate) * to[i] + static_cast<double>(rate) * from[i]);
  }
  void to_bf16(const float* from, void* to, int64_t count) override {
    for (int64_t i = 0; i < count; ++i) static_cast<uint16_t*>(to)[i] = bf16_of_float(from[i]);
  }
  void from_bf16(const void* from, float* to, int64_t count) override {
    for (int64_t i = 0; i < count; ++i) to[i] = float_of_bf16(static_cast<const uint16_t*>(from)[i]);
  }
  void sum_of_squares(const float* values, int64_t count, float* sum, Gradient mode) override {
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += static_cast<double>(values[i]) * values[i];
    store(sum, total, mode);
  }
  void clip_scale(const float* sum, float limit, float* scale) override {
    const double norm = std::sqrt(static_cast<double>(*sum));
    *scale *= std::isnan(norm) ? 1.0f : static_cast<float>(std::min(1.0, limit / (*scale * norm + 1e-6)));
  }
  void correct_for_excluded(const float* seen, float mark, float* scale, float* flag) override {
    *scale = *seen == 0 ? 1.0f : *scale / *seen;
    if (*seen == 0 && *flag == 0) *flag = mark;
  }

 private:
  // Mixes normalized images, one more than x has.
  void normalize_mixed(const DeviceBatch& batch, const ImageShape& image, const PixelScale& scale,
                       const Augmentation& augmentation, const Tensor& x) {
    const auto& [h, w, channels] = x.shape.image;
    const int64_t size = x.shape.n, elements = x.shape.image.elements();
    std::vector<float> values((size + 1) * elements);
    DeviceBatch plain = batch;
    plain.mix = nullptr;
    normalize(plain, image, scale, augmentation, {values.data(), {size + 1, x.shape.image}, {}, DType::f32});
    const BatchMix& mix = *batch.mix;
    const bool box = mix.bottom > mix.top && mix.right > mix.left;
    for (int64_t n = 0; n < size; ++n) {
      const int64_t partner = (n + size) % (size + 1);
      const bool mixed = batch.labels[batch.id(partner)] >= 0;
      for (int64_t e = 0; e < elements; ++e) {
        const int64_t i = e / channels / w, j = e / channels % w;
        const bool inside = i >= mix.top && i < mix.bottom && j >= mix.left && j < mix.right;
        const double share = !mixed ? 1 : !box ? static_cast<double>(mix.lambda) : inside ? 0 : 1;
        x.f32()[n * elements + e] =
            static_cast<float>(share * values[n * elements + e] + (1 - share) * values[partner * elements + e]);
      }
    }
  }

  // torchvision's RandomErasing.get_params, from the numbers of ops/erased_box.h.
  static void erase(const Augmentation& augmentation, uint32_t epoch, int32_t key, const ImageShape& image,
                    const Tensor& x, int64_t n) {
    const auto uniform = [&](uint32_t k, int word) {
      const Bits128 bits = philox4x32(
          {{k, static_cast<uint32_t>(key), epoch, static_cast<uint32_t>(Operation::random_erase)}}, augmentation.seed);
      return bits.word[word] / 4294967296.0;
    };
    if (uniform(0, 0) >= augmentation.erase) return;
    for (uint32_t k = 1; k <= 10; ++k) {
      const double area = static_cast<double>(image.h * image.w) * (0.02 + uniform(k, 0) * (0.33 - 0.02));
      const double ratio = std::exp(std::log(0.3) + uniform(k, 1) * (std::log(3.3) - std::log(0.3)));
      const int64_t h = std::lround(std::sqrt(area * ratio)), w = std::lround(std::sqrt(area / ratio));
      if (h >= image.h || w >= image.w) continue;
      const auto top = static_cast<int64_t>(uniform(k, 2) * static_cast<double>(image.h - h + 1));
      const auto left = static_cast<int64_t>(uniform(k, 3) * static_cast<double>(image.w - w + 1));
      const auto& [rows, columns, channels] = x.shape.image;
      for (int64_t e = 0; e < x.shape.image.elements(); ++e) {
        const int64_t i = e / channels / columns, j = e / channels % columns;
        if (i >= top && i < top + h && j >= left && j < left + w) x.f32()[n * x.shape.image.elements() + e] = 0;
      }
      return;
    }
  }

  void softmax(const Tensor& logits, const DeviceBatch& batch, float scale, float smoothing, float* dlogits,
               float* stats, Gradient mode) {
    expect_dense(logits);
    const int64_t classes = logits.shape.image.c, length = batch.sequence_length;
    const int64_t positions = length > 0 ? length : 1, samples = logits.shape.n * positions;
    const double part = 1 / static_cast<double>(positions);
    const double share = static_cast<double>(smoothing) / static_cast<double>(classes);
    double loss = 0, correct = 0;
    for (int64_t n = 0; n < samples; ++n) {
      const float* z = logits.f32() + n * classes;
      const float* largest = std::max_element(z, z + classes);
      const int64_t id = batch.id(n / positions), best = largest - z;
      int64_t label = batch.labels[id];
      if (length > 0 && label != kExcludedLabel) label = batch.tokens()[id * (length + 1) + n % length + 1];
      const int64_t other = batch.mix ? batch.labels[batch.id((n + logits.shape.n) % (logits.shape.n + 1))] : label;
      const double lambda = batch.mix && other >= 0 ? static_cast<double>(batch.mix->lambda) : 1;
      const double weight = batch.class_weights && label >= 0 ? batch.class_weights[label] : 1;
      if (label == kExcludedLabel) {
        if (dlogits) std::fill_n(dlogits + n * classes, classes, 0.0f);
        continue;
      }
      const double max = *largest;
      double sum = 0;
      for (int64_t k = 0; k < classes; ++k) sum += std::exp(z[k] - max);
      correct += best == label ? part : 0;
      for (int64_t k = 0; k < classes; ++k) {
        const double labels = (k == label ? lambda : 0) + (k == other ? 1 - lambda : 0);
        const double target = labels * (1.0 - smoothing) + share, shifted = z[k] - max;
        loss += target == 0 ? 0 : part * weight * target * (std::log(sum) - shifted);
        if (dlogits)
          dlogits[n * classes + k] = static_cast<float>(part * weight * (std::exp(shifted) / sum - target) * scale);
      }
    }
    store(stats, loss, mode);
    store(stats + 1, correct, mode);
    device_.poll();
  }

  Device& device_;
};

}  // namespace

std::unique_ptr<Ops> make_reference_ops(Device& device) { return std::make_unique<ReferenceOps>(device); }

}  // namespace ddp
