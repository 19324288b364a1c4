#include "ddp/ticket.h"

#include "core/error.h"

#include <gtest/gtest.h>

#include <limits>

namespace ddp {
namespace {

// What the sum of all ranks' tickets says, each rank writing its own part.
std::vector<float> summed(int world, int64_t samples_of_each, const std::vector<int64_t>& steps) {
  const TicketLayout layout{world};
  std::vector<float> sum(layout.elements()), mine(layout.elements(), std::numeric_limits<float>::quiet_NaN());
  for (int rank = 0; rank < world; ++rank) {
    write_ticket(mine, layout, rank, samples_of_each, steps[rank]);
    mine[TicketLayout::kLossSum] = 1.5f * static_cast<float>(rank);
    mine[TicketLayout::kCorrect] = static_cast<float>(rank);
    mine[layout.stop(rank)] = rank == 1 ? 1.0f : 0.0f;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += mine[i];
  }
  return sum;
}

std::string thrown(const Ticket& ticket, int64_t step, int64_t samples, Exit code) {
  try {
    check_ticket(ticket, step, samples);
  } catch (const SharedError& e) {
    EXPECT_EQ(e.code(), code);
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Ticket, SlotsDoNotOverlap) {
  const TicketLayout layout{3};
  std::vector<int> uses(layout.elements());
  for (const int64_t slot : {TicketLayout::kLossSum, TicketLayout::kCorrect, TicketLayout::kSamples}) ++uses[slot];
  for (int r = 0; r < 3; ++r)
    for (const int64_t slot : {layout.stop(r), layout.bad(r), layout.step(r)}) ++uses[slot];
  EXPECT_EQ(uses, std::vector<int>(12, 1));
}

TEST(Ticket, GoesRound) {
  const Ticket ticket = read_ticket(summed(3, 100, {7, 7, 7}), 3);
  EXPECT_EQ(ticket.loss_sum, 4.5);
  EXPECT_EQ(ticket.correct, 3);
  EXPECT_EQ(ticket.samples, 300);
  EXPECT_EQ(ticket.stop, (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(ticket.bad, (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(ticket.step, (std::vector<float>{7, 7, 7}));
  EXPECT_NO_THROW(check_ticket(ticket, 7, 300));
}

TEST(Ticket, StepsRideModulo2To20) {
  const int64_t step = (int64_t{5} << 20) + 1048575;
  const Ticket ticket = read_ticket(summed(2, 1, {step, step}), 2);
  EXPECT_EQ(ticket.step, (std::vector<float>{1048575, 1048575}));
  EXPECT_NO_THROW(check_ticket(ticket, step, 2));
  EXPECT_THROW(check_ticket(ticket, step + 1, 2), SharedError);
}

TEST(Ticket, ADisagreementNamesTheStepOfEachRank) {
  const std::string text = thrown(read_ticket(summed(3, 1, {9, 8, 9}), 3), 9, 3, Exit::communication);
  EXPECT_NE(text.find("9, 8, 9"), text.npos) << text;
}

TEST(Ticket, AMissingSampleIsAnError) {
  const std::string text = thrown(read_ticket(summed(2, 10, {1, 1}), 2), 1, 21, Exit::communication);
  EXPECT_NE(text.find("20 samples"), text.npos) << text;
}

TEST(Ticket, AnInfiniteLossIsAnErrorThoughAllGradientsAreFinite) {
  Ticket ticket = read_ticket(summed(2, 1, {4, 4}), 2);
  ticket.loss_sum = INFINITY;
  const std::string text = thrown(ticket, 4, 2, Exit::numerics);
  EXPECT_NE(text.find("step 4: the loss"), text.npos) << text;
}

TEST(Ticket, ABadNumberNamesStepRankAndPlace) {
  Ticket ticket = read_ticket(summed(3, 1, {4, 4, 4}), 3);
  ticket.bad[2] = TicketLayout::bad_bucket(0);
  ticket.loss_sum = INFINITY;
  std::string text = thrown(ticket, 4, 3, Exit::numerics);
  EXPECT_NE(text.find("step 4 on rank 2: the loss"), text.npos) << text;
  ticket.loss_sum = 3;
  ticket.bad[1] = TicketLayout::bad_bucket(6);
  text = thrown(ticket, 4, 3, Exit::numerics);
  EXPECT_NE(text.find("rank 1: a gradient of bucket 6"), text.npos) << text;
}

}  // namespace
}  // namespace ddp
