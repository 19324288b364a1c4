// Compares the average of weights and batch-norm statistics with PyTorch's. make_averages.py describes the figures in
// expected/averages.json.
#include "tests/judge.h"
#include "tests/parity/parity.h"
#include "train/step/weight_average.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ddp::testing {
namespace {

using nlohmann::json;
using Values = std::vector<float>;

// The distance of two tensors, as a share of the norm of the second.
double relative_distance(const float* actual, const std::vector<double>& expected) {
  double distance = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    distance += std::pow(actual[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return std::sqrt(distance / norm);
}

TEST(Averages, OfWeightsAndStatisticsMatchPytorch) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const json figures = expected_figures("averages.json");
  const json& values = figures.at("values");
  ASSERT_GE(figures.at("runs").size(), 3u);
  double worst = 0;
  for (const json& run : figures.at("runs")) {
    const AverageConfig config{.every = 3, .decay = run.at("decay")};
    const size_t weights = values[0].at("weights").size(), statistics = values[0].at("statistics").size();
    WeightAverage average(*device, *ops, weights * sizeof(float), statistics * sizeof(float));
    for (size_t update = 0; update < values.size(); ++update) {
      const auto of = [&](const char* name) { return values[update].at(name).get<Values>(); };
      const int64_t step = 1 + 3 * static_cast<int64_t>(update);
      EXPECT_EQ(average_rate(config, step + 1, 100), 0);
      average.update(of("weights").data(), of("statistics").data(), static_cast<float>(average_rate(config, step, 100)),
                     {});
      const json& expected = run.at("averages")[update];
      for (const auto& [name, actual] :
           {std::pair("weights", average.weights()), {"statistics", average.running_stats()}}) {
        const double distance = relative_distance(actual, expected.at(name).get<std::vector<double>>());
        EXPECT_LE(distance, 1e-6) << name << " with decay " << config.decay << ", update " << update;
        worst = worse(worst, distance);
      }
    }
  }
  std::printf("averages within %.1e\n", worst);
}

}  // namespace
}  // namespace ddp::testing
