// Compares learning rates with PyTorch's schedulers. make_schedules.py describes the figures in
// expected/schedules.json.
#include "checkpoint/run_state.h"
#include "tests/parity/parity.h"
#include "train/step/schedule.h"

#include <gtest/gtest.h>

#include <limits>

namespace ddp::testing {
namespace {

using nlohmann::json;
using Kind = ScheduleDesc::Kind;

constexpr int64_t kBatch = 10, kStepsPerEpoch = 4, kSamples = 35;  // the last batch of an epoch has five samples

ScheduleDesc schedule_of(const json& o, int64_t steps) {
  return {.kind = o.at("kind") == "onecycle" ? Kind::one_cycle : Kind::polynomial,
          .lr = o.at("lr"),
          .total_epochs = static_cast<double>(steps),
          .warm_up_epochs = o.value("warm_up", 0.0),
          .warm_up_factor = o.value("warm_up_factor", 1.0),
          .power = o.value("power", 1.0),
          .pct_start = o.value("pct_start", 0.3),
          .div_factor = o.value("div_factor", 25.0),
          .final_div_factor = o.value("final_div_factor", 1e4),
          .anneal = o.value("anneal", "cos") == "linear" ? ScheduleDesc::Anneal::linear : ScheduleDesc::Anneal::cosine};
}

// PolynomialLR is compared at whole epochs, OneCycleLR at the steps of epochs whose last batch is short.
TEST(Schedules, ByStepMatchPytorch) {
  const json figures = expected_figures("schedules.json");
  const int64_t steps = figures.at("steps");
  ASSERT_GE(figures.at("by_step").size(), 7u);
  for (const json& o : figures.at("by_step")) {
    const auto rates = o.at("rates").get<std::vector<double>>();
    ASSERT_EQ(std::ssize(rates), steps);
    ScheduleDesc schedule = schedule_of(o, steps);
    const bool by_epoch = schedule.kind == Kind::polynomial;
    if (!by_epoch) schedule.total_epochs /= kStepsPerEpoch;
    schedule.batch_size = kBatch;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t seen =
          by_epoch ? step * kSamples : step / kStepsPerEpoch * kSamples + step % kStepsPerEpoch * kBatch;
      EXPECT_NEAR(lr_at(schedule, seen, kSamples), rates[step], 1e-12) << o.dump() << ", step " << step;
    }
  }
}

// The state goes through the text of a checkpoint after each evaluation.
TEST(Schedules, PlateausMatchPytorchThroughResumes) {
  const json figures = expected_figures("schedules.json");
  ASSERT_GE(figures.at("plateau").size(), 4u);
  for (const json& o : figures.at("plateau")) {
    const PlateauDesc desc{
        .metric = o.at("metric") == "loss" ? PlateauDesc::Metric::loss : PlateauDesc::Metric::accuracy,
        .patience = o.at("patience"),
        .threshold = o.at("threshold"),
        .cooldown = o.at("cooldown")};
    RunState state;
    state.plateau.emplace();
    int reductions = 0;
    for (size_t i = 0; i < o.at("rates").size(); ++i) {
      const json& metric = o.at("metrics")[i];
      const double before = state.plateau->factor;
      observe(desc, o.at("lr"), o.at("factor"), o.at("min_lr"),
              metric.is_null() ? std::numeric_limits<double>::quiet_NaN() : metric.get<double>(), *state.plateau);
      state = run_state_from_json(to_json(state), "the state");
      reductions += state.plateau->factor < before;
      EXPECT_NEAR(o.at("lr").get<double>() * state.plateau->factor, o.at("rates")[i].get<double>(), 1e-12)
          << o.dump() << ", evaluation " << i;
    }
    EXPECT_GE(reductions, 2) << o.dump();
  }
}

}  // namespace
}  // namespace ddp::testing
