#include "app/inputs/load_data.h"
#include "app/inputs/model_info.h"
#include "core/error.h"
#include "core/printable.h"
#include "data/pixel_sums.h"
#include "health/run_on_all_ranks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

namespace ddp {
namespace {

constexpr int64_t kSamples = 10'000, kSamplesOfBits = 10;
constexpr int kMostBits = 16;
constexpr std::string_view kMeasured = "measured ";

// Sums over all ranks, exactly: as two halves of 32 bits, whose sums a double holds.
void sum_over_ranks(std::span<uint64_t* const> numbers, Communicator& world) {
  std::vector<double> halves;
  for (const uint64_t* number : numbers) {
    halves.push_back(static_cast<double>(*number >> 32));
    halves.push_back(static_cast<double>(*number & 0xffffffff));
  }
  world.all_reduce_host(halves);
  for (size_t i = 0; i < numbers.size(); ++i)
    *numbers[i] = (static_cast<uint64_t>(halves[2 * i]) << 32) + static_cast<uint64_t>(halves[2 * i + 1]);
}

}  // namespace

std::string PixelNormalization::text() const {
  if (mean.empty()) return "";
  return fmt::format("{}{} / {}", measured ? kMeasured : "", fmt::join(mean, ","), fmt::join(std, ","));
}

PixelNormalization normalization_from(const std::string& text, int64_t channels) {
  PixelStatistics given{.kind = PixelStatistics::Kind::given};
  const bool measured = text.starts_with(kMeasured);
  std::istringstream stream(measured ? text.substr(kMeasured.size()) : text);
  const auto read = [&](std::vector<double>& values) {
    for (int64_t c = 0; c < channels; ++c) {
      stream >> values.emplace_back();
      stream.ignore(c + 1 < channels ? 1 : 3);  // the comma, or the slash between spaces
    }
  };
  read(given.mean);
  read(given.std);
  PixelNormalization result = normalization_of(given);
  result.measured = measured;
  require(!stream.bad() && result.text() == text, Exit::data,
          "mean and std of the checkpoint are {}, not numbers of {} channels", printable(text), channels);
  return result;
}

PixelNormalization normalization_of(const PixelStatistics& given) {
  if (given.kind != PixelStatistics::Kind::given) return {};
  return {.scale = pixel_scale_of(given.mean, given.std), .mean = given.mean, .std = given.std};
}

PixelNormalization measure_pixels(const LoadedData& loaded, MpiSession& session, Communicator& world,
                                  const Reading& reading) {
  const Dataset& data = loaded.measured ? *loaded.measured : loaded.data.train->unaugmented();
  const int64_t channels = data.image_shape().c;
  if (loaded.pixels.kind != PixelStatistics::Kind::measured) return normalization_of(loaded.pixels);
  PixelSums sums = run_on_all_ranks(session, [&] {
    reading.progress();
    std::vector<int64_t> mine;
    const std::vector<int64_t> all = chosen_samples(data.size(), kSamples);
    for (size_t i = session.rank(); i < all.size(); i += session.size()) mine.push_back(all[i]);
    PixelSums of_mine = pixel_sums(data, mine, loaded.workers, reading.progress, loaded.excludes);
    reading.done();
    return of_mine;
  });
  std::array<uint64_t*, 7> numbers{&sums.pixels};
  for (size_t c = 0; c < 3; ++c) {
    numbers[1 + c] = &sums.sum[c];
    numbers[4 + c] = &sums.squares[c];
  }
  sum_over_ranks(numbers, world);
  PixelNormalization result =
      normalization_of({PixelStatistics::Kind::given, sums.mean(channels), sums.deviation(channels)});
  result.measured = true;
  int largest = 0;
  for (const std::string& of_rank : session.gather(fmt::format("{}", sums.largest)))
    largest = std::max(largest, std::stoi(of_rank));
  result.hint = run_on_all_ranks(session, [&] {
    // Most data are of one kind, so few files show it. They are read where the values are small, as a rule never.
    if (narrow_range_hint(largest, kMostBits).empty()) return std::string();
    int bits = 8;
    for (const int64_t sample : chosen_samples(data.size(), kSamplesOfBits)) {
      try {
        bits = std::max(bits, data.bits(sample));
      } catch (const Error& e) {
        if (!loaded.excludes || e.code() != Exit::data) throw;
      }
    }
    return narrow_range_hint(largest, bits);
  });
  return result;
}

}  // namespace ddp
