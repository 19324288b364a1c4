#include "train/step/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace ddp {
namespace {

using Kind = ScheduleDesc::Kind;
constexpr int64_t kSamples = 1000;

double at(const ScheduleDesc& desc, double epochs) {
  return lr_at(desc, std::llround(epochs * static_cast<double>(kSamples)), kSamples);
}

TEST(Schedule, ConstantStays) {
  const ScheduleDesc desc{.lr = 0.3};
  for (const double epoch : {0.0, 0.5, 9.0, 20.0}) EXPECT_EQ(at(desc, epoch), 0.3);
}

TEST(Schedule, StepFallsExactlyAtItsStep) {
  const ScheduleDesc desc{.kind = Kind::step, .lr = 0.1, .step_epochs = 3, .gamma = 0.5};
  EXPECT_EQ(lr_at(desc, 3 * kSamples - 1, kSamples), 0.1);
  EXPECT_EQ(lr_at(desc, 3 * kSamples, kSamples), 0.05);
  EXPECT_EQ(at(desc, 6), 0.025);
}

TEST(Schedule, MultiStepFallsAtItsMilestones) {
  const ScheduleDesc desc{.kind = Kind::multi_step, .lr = 1, .milestones = {2, 2.5, 7}, .gamma = 0.1};
  EXPECT_DOUBLE_EQ(at(desc, 1.999), 1);
  EXPECT_DOUBLE_EQ(at(desc, 2), 0.1);
  EXPECT_DOUBLE_EQ(at(desc, 2.5), 0.01);
  EXPECT_DOUBLE_EQ(at(desc, 8), 0.001);
}

TEST(Schedule, CosineFallsFromTheRateToTheMinimum) {
  const ScheduleDesc desc{.kind = Kind::cosine, .lr = 1, .total_epochs = 10, .min_lr = 0.2};
  EXPECT_EQ(at(desc, 0), 1);
  EXPECT_NEAR(at(desc, 2.5), 0.2 + 0.8 * (1 + std::sqrt(0.5)) / 2, 1e-15);
  EXPECT_DOUBLE_EQ(at(desc, 5), 0.6);
  EXPECT_DOUBLE_EQ(at(desc, 10), 0.2);
  EXPECT_DOUBLE_EQ(at(desc, 15), 0.2);
}

TEST(Schedule, LinearFallsFromTheRateToTheMinimum) {
  const ScheduleDesc desc{.kind = Kind::linear, .lr = 1, .total_epochs = 10, .min_lr = 0.5};
  EXPECT_EQ(at(desc, 0), 1);
  EXPECT_DOUBLE_EQ(at(desc, 4), 0.8);
  EXPECT_DOUBLE_EQ(at(desc, 10), 0.5);
  EXPECT_DOUBLE_EQ(at(desc, 12), 0.5);
}

TEST(Schedule, WarmUpRisesBeforeTheScheduleStarts) {
  ScheduleDesc desc{
      .kind = Kind::step, .lr = 1, .warm_up_epochs = 4, .warm_up_factor = 0.2, .step_epochs = 3, .gamma = 0.5};
  EXPECT_DOUBLE_EQ(at(desc, 0), 0.2);
  EXPECT_DOUBLE_EQ(at(desc, 1.5), 0.5);
  EXPECT_DOUBLE_EQ(at(desc, 3.999), 0.9998);
  EXPECT_EQ(at(desc, 4), 1);
  EXPECT_EQ(at(desc, 6.999), 1);
  EXPECT_EQ(at(desc, 7), 0.5);
  desc.warm_up = ScheduleDesc::WarmUp::constant;
  EXPECT_EQ(at(desc, 3.999), 0.2);
  EXPECT_EQ(at(desc, 4), 1);
}

// PyTorch's learning rate of each epoch for a rate of 0.5: torch.optim.lr_scheduler's SequentialLR of
// LinearLR(start_factor=0.01, total_iters=3) and CosineAnnealingLR(T_max=7, eta_min=0.01).
TEST(Schedule, MatchesPytorchAtWholeEpochs) {
  const ScheduleDesc desc{.kind = Kind::cosine, .lr = 0.5, .total_epochs = 10, .warm_up_epochs = 3, .min_lr = 0.01};
  const double expected[] = {0.005,
                             0.17,
                             0.335,
                             0.5,
                             0.47573737263609267,
                             0.40775500145538973,
                             0.30951762881929706,
                             0.20048237118070303,
                             0.1022449985446103,
                             0.03426262736390734};
  for (int epoch = 0; epoch < 10; ++epoch) EXPECT_NEAR(at(desc, epoch), expected[epoch], 1e-12) << epoch;
}

TEST(Schedule, ScalesWithTheGlobalBatch) {
  EXPECT_EQ(scaled_lr(0.1, RateScale::none, 1024, 256), 0.1);
  EXPECT_EQ(scaled_lr(0.1, RateScale::linear, 1024, 256), 0.4);
  EXPECT_EQ(scaled_lr(0.1, RateScale::sqrt, 1024, 256), 0.2);
}

TEST(Schedule, DescribesItself) {
  EXPECT_EQ(describe({.lr = 0.2}), "lr 0.2");
  EXPECT_EQ(describe({.kind = Kind::cosine, .lr = 0.1, .total_epochs = 90, .warm_up_epochs = 5}),
            "lr 0.001, 0.1 after 5 epochs, 0 at the end of epoch 90 (cosine)");
  EXPECT_EQ(describe({.kind = Kind::step, .lr = 0.1, .total_epochs = 90, .step_epochs = 30}),
            "lr 0.1, 0.001 at the end of epoch 90 (in steps)");
  EXPECT_EQ(describe({.kind = Kind::polynomial, .lr = 0.1, .total_epochs = 9, .power = 2}),
            "lr 0.1, 0 at the end of epoch 9 (polynomial)");
  EXPECT_EQ(describe({.kind = Kind::one_cycle, .lr = 0.1, .total_epochs = 10}),
            "lr 0.004, 0.1 after 3 epochs, 4e-07 at the end of epoch 10 (one cycle)");
  EXPECT_EQ(describe({.kind = Kind::plateau, .lr = 0.1, .warm_up_epochs = 2}),
            "lr 0.001, 0.1 after 2 epochs, times 0.1 after more than 10 evaluations without a better loss");
}

}  // namespace
}  // namespace ddp
