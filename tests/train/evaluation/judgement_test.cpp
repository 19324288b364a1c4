#include "train/evaluation/judgement.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ddp {
namespace {

using Metric = PlateauDesc::Metric;

Evaluation evaluation_of(int64_t correct, double loss = 0) {
  return {.correct = correct, .samples = 100, .expected_samples = 100, .loss = loss};
}

TEST(Judgement, BestAndEarlyStopCountTheFirstOfEqualAccuracies) {
  const Judgement judgement{.early_stop = 2};
  RunState state;
  begin_judging(judgement, state);
  EXPECT_TRUE(judge(judgement, evaluation_of(30), {.epoch = 1, .regular = true}, state));
  EXPECT_FALSE(judge(judgement, evaluation_of(30), {.epoch = 2, .regular = true}, state));
  EXPECT_FALSE(stops_early(2, state));
  EXPECT_TRUE(judge(judgement, evaluation_of(31), {.epoch = 3, .regular = true}, state));
  EXPECT_FALSE(judge(judgement, evaluation_of(31), {.epoch = 4, .regular = true}, state));
  EXPECT_FALSE(stops_early(2, state));
  EXPECT_FALSE(judge(judgement, evaluation_of(29), {.epoch = 5, .regular = true}, state));
  EXPECT_TRUE(stops_early(2, state));
  EXPECT_FALSE(stops_early(3, state));
  EXPECT_FALSE(stops_early(0, state));
  EXPECT_EQ(state.early_stop->best_epoch, 3);
  EXPECT_EQ(state.best_epoch, 3);
  EXPECT_EQ(state.best_accuracy, 0.31);
  EXPECT_EQ(state.accuracy, 0.29);
}

// One inside an epoch, or a repeated one, and for the rate one in the warm-up.
TEST(Judgement, OtherEvaluationsChangeNeitherRateNorEnd) {
  const Judgement judgement{.schedule = {.kind = ScheduleDesc::Kind::plateau,
                                         .lr = 1,
                                         .warm_up_epochs = 2,
                                         .gamma = 0.5,
                                         .plateau = {.metric = Metric::accuracy, .patience = 0}},
                            .early_stop = 9};
  RunState state;
  begin_judging(judgement, state);
  const auto see = [&](int64_t correct, EvaluationPlace place) {
    judge(judgement, evaluation_of(correct), place, state);
    return state.plateau->factor;
  };
  EXPECT_EQ(see(90, {.epoch = 1, .regular = true}), 1);
  EXPECT_EQ(see(30, {.epoch = 2, .regular = true}), 1);  // the first after the warm-up
  EXPECT_EQ(see(20, {.epoch = 3, .regular = false}), 1);
  EXPECT_EQ(state.early_stop->bad, 1);
  EXPECT_EQ(see(20, {.epoch = 3, .regular = true}), 0.5);
  EXPECT_EQ(state.early_stop->bad, 2);
  EXPECT_EQ(see(99, {.epoch = 4, .regular = false}), 0.5);
  EXPECT_EQ(state.best_accuracy, 0.99);
  EXPECT_EQ(state.early_stop->best, 0.9);
}

// The plateau is that of the weights: the average follows the rate late.
TEST(Judgement, AverageIsJudgedInPlaceOfTheWeights) {
  const Judgement judgement{
      .schedule = {.kind = ScheduleDesc::Kind::plateau, .lr = 1, .gamma = 0.5, .plateau = {.patience = 0}},
      .early_stop = 1};
  RunState state;
  begin_judging(judgement, state);
  Evaluation evaluation = evaluation_of(40, 2.0);
  evaluation.average = {.accuracy = 0.5, .loss = 1.0};
  EXPECT_TRUE(judge(judgement, evaluation, {.epoch = 1, .regular = true}, state));
  evaluation = evaluation_of(45, 1.5);
  evaluation.average = {.accuracy = 0.49, .loss = 1.1};
  EXPECT_FALSE(judge(judgement, evaluation, {.epoch = 2, .regular = true}, state));
  EXPECT_TRUE(stops_early(1, state));
  EXPECT_EQ(state.plateau->factor, 1);
  EXPECT_EQ(state.plateau->best, 1.5);
  EXPECT_EQ(state.best_accuracy, 0.5);
  EXPECT_EQ(state.accuracy, 0.45);
}

// The accuracies say the opposite.
TEST(Judgement, TokensAreJudgedByTheirLoss) {
  const Judgement judgement{.early_stop = 2};
  RunState state;
  begin_judging(judgement, state);
  const auto is_best = [&](int64_t epoch, int64_t correct, double loss) {
    Evaluation evaluation = evaluation_of(correct, loss);
    evaluation.sequence_length = 1;
    return judge(judgement, evaluation, {.epoch = epoch, .regular = true}, state);
  };
  EXPECT_FALSE(is_best(1, 1, std::nan("")));
  EXPECT_FALSE(state.best_loss);
  EXPECT_TRUE(is_best(2, 90, 4));
  EXPECT_FALSE(is_best(3, 95, 4));
  EXPECT_TRUE(is_best(4, 30, 3.5));
  EXPECT_FALSE(stops_early(2, state));
  EXPECT_FALSE(is_best(5, 99, 3.75));
  EXPECT_FALSE(is_best(6, 99, std::nan("")));
  EXPECT_TRUE(stops_early(2, state));
  EXPECT_EQ(state.best_loss, 3.5);
  EXPECT_EQ(state.best_epoch, 4);
  EXPECT_EQ(state.best_accuracy, -1);
  EXPECT_EQ(state.early_stop->best_loss, 3.5);
  EXPECT_EQ(state.early_stop->best_epoch, 4);
}

TEST(Judgement, BeginsWithThePartsOfItsOptions) {
  RunState state;
  begin_judging({}, state);
  EXPECT_FALSE(state.plateau || state.early_stop);
  state.plateau = PlateauState{.factor = 0.25};
  const Judgement plateau{.schedule = {.kind = ScheduleDesc::Kind::plateau}, .early_stop = 1};
  begin_judging(plateau, state);
  EXPECT_EQ(state.plateau->factor, 0.25);
  EXPECT_EQ(state.early_stop->best, -1);
  begin_judging({}, state);
  EXPECT_FALSE(state.plateau || state.early_stop);
}

}  // namespace
}  // namespace ddp
