#include "app/load_data.h"

#include "data/catalog.h"
#include "data/subset.h"
#include "ddp/hash.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace ddp {
namespace {

uint64_t fingerprint_of(const Dataset& data) {
  constexpr int64_t kImages = 256;
  const auto& [h, w, c] = data.image_shape();
  Hash hash;
  for (const int64_t number : {data.size(), h, w, c}) hash.add(static_cast<uint64_t>(number));
  for (int64_t i = 0; i < data.size(); ++i) hash.add(static_cast<uint64_t>(data.label(i)));
  std::vector<uint8_t> pixels(data.image_shape().elements());
  for (int64_t i = 0; i < data.size(); i += std::max<int64_t>(1, data.size() / kImages)) {
    data.read(i, pixels);
    for (const uint8_t pixel : pixels) hash.add(pixel);
  }
  return hash.value();
}

}  // namespace

Datasets load_data(const DataConfig& config) {
  Datasets data = open_datasets(config.name, config.path);
  if (config.train_samples > 0) data.train = std::make_unique<Subset>(std::move(data.train), config.train_samples);
  return data;
}

uint64_t fingerprint(const Datasets& data) { return fingerprint_of(*data.train) ^ fingerprint_of(*data.test) << 1; }

}  // namespace ddp
