#include "ddp/ticket.h"

#include "core/error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace ddp {
namespace {

// The sum of the tickets of all ranks. Each rank writes its own slots.
std::vector<float> summed(int world, int64_t samples_of_each, const std::vector<int64_t>& steps) {
  const TicketLayout layout{world};
  std::vector<float> sum(layout.elements()), mine(layout.elements(), std::numeric_limits<float>::quiet_NaN());
  for (int rank = 0; rank < world; ++rank) {
    write_ticket(mine, layout, rank, samples_of_each, steps[rank], rank == 1 ? Request::stop : Request::none);
    mine[TicketLayout::kLossSum] = 1.5f * static_cast<float>(rank);
    mine[TicketLayout::kCorrect] = static_cast<float>(rank);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += mine[i];
  }
  return sum;
}

std::string disagreement(const std::vector<float>& slots, int world, int64_t step, int64_t samples) {
  try {
    check_agreement(read_ticket(slots, {world}), step, samples);
  } catch (const CollectiveError& e) {
    EXPECT_EQ(e.code(), Exit::communication);
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Ticket, SlotsDoNotOverlap) {
  const TicketLayout layout{3};
  std::vector<int> uses(layout.elements());
  for (const int64_t slot :
       {TicketLayout::kLossSum, TicketLayout::kCorrect, TicketLayout::kSamples, TicketLayout::kSquares})
    ++uses[slot];
  for (int r = 0; r < 3; ++r)
    for (const int64_t slot : {layout.request(r), layout.bad(r), layout.step(r)}) ++uses[slot];
  EXPECT_EQ(uses, std::vector<int>(13, 1));
}

std::vector<float> copy(std::span<const float> slots) { return {slots.begin(), slots.end()}; }

TEST(Ticket, RoundTrip) {
  const std::vector<float> slots = summed(3, 100, {7, 7, 7});
  const Ticket ticket = read_ticket(slots, {3});
  EXPECT_EQ(ticket.loss_sum, 4.5);
  EXPECT_EQ(ticket.correct, 3);
  EXPECT_EQ(ticket.samples, 300);
  EXPECT_EQ(copy(ticket.request), (std::vector<float>{0, 3, 0}));
  EXPECT_EQ(ticket.requested(), Request::stop);
  EXPECT_EQ(copy(ticket.bad), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(copy(ticket.step), (std::vector<float>{7, 7, 7}));
  EXPECT_NO_THROW(check_agreement(ticket, 7, 300));
  EXPECT_FALSE(bad_step(ticket, 7));
}

TEST(Ticket, StepsAreEncodedModulo2To20) {
  const int64_t step = (int64_t{5} << 20) + 1048575;
  const std::vector<float> slots = summed(2, 1, {step, step});
  const Ticket ticket = read_ticket(slots, {2});
  EXPECT_EQ(copy(ticket.step), (std::vector<float>{1048575, 1048575}));
  EXPECT_NO_THROW(check_agreement(ticket, step, 2));
  EXPECT_THROW(check_agreement(ticket, step + 1, 2), CollectiveError);
}

TEST(Ticket, DisagreementNamesTheStepOfEachRank) {
  const std::string text = disagreement(summed(3, 1, {9, 8, 9}), 3, 9, 3);
  EXPECT_NE(text.find("9, 8, 9"), text.npos) << text;
}

TEST(Ticket, MissingSampleIsAnError) {
  const std::string text = disagreement(summed(2, 10, {1, 1}), 2, 1, 21);
  EXPECT_NE(text.find("20 samples"), text.npos) << text;
}

TEST(Ticket, ExcludedSamplesMayBeMissing) {
  const std::vector<float> slots = summed(2, 10, {1, 1});
  const Ticket ticket = read_ticket(slots, {2});
  EXPECT_NO_THROW(check_agreement(ticket, 1, 21, true));
  EXPECT_THROW(check_agreement(ticket, 1, 19, true), CollectiveError);
}

TEST(Ticket, TellsThatTheRunEndsForLackOfASample) {
  const TicketLayout layout{3};
  std::vector<float> slots = summed(3, 1, {4, 4, 4});
  EXPECT_FALSE(ends_unread(read_ticket(slots, {3})));
  slots[layout.bad(2)] = TicketLayout::kUnreadable;
  EXPECT_TRUE(ends_unread(read_ticket(slots, {3})));
  slots[layout.bad(2)] = 0;
  slots[layout.bad(0)] = TicketLayout::kNoSamples;
  EXPECT_FALSE(ends_unread(read_ticket(slots, {3})));
  EXPECT_EQ(bad_step(read_ticket(slots, {3}), 4)->text, "no picture of step 4 can be read");
}

TEST(Ticket, InfiniteLossIsBadEvenWithFiniteGradients) {
  std::vector<float> slots = summed(2, 1, {4, 4});
  for (const float loss : {INFINITY, -INFINITY, NAN}) {
    slots[TicketLayout::kLossSum] = loss;
    const auto bad = bad_step(read_ticket(slots, {2}), 4);
    ASSERT_TRUE(bad);
    EXPECT_FALSE(bad->skipped);
    EXPECT_NE(bad->text.find("step 4: the loss"), std::string::npos) << bad->text;
  }
}

TEST(Ticket, BadStepNamesStepRankAndLocation) {
  const TicketLayout layout{3};
  std::vector<float> slots = summed(3, 1, {4, 4, 4});
  slots[layout.bad(2)] = TicketLayout::bad_bucket(0);
  slots[TicketLayout::kLossSum] = INFINITY;
  auto bad = bad_step(read_ticket(slots, {3}), 4);
  ASSERT_TRUE(bad);
  EXPECT_TRUE(bad->skipped);
  EXPECT_NE(bad->text.find("step 4 on rank 2: the loss"), std::string::npos) << bad->text;
  EXPECT_NO_THROW(check_agreement(read_ticket(slots, {3}), 4, 3));
  slots[TicketLayout::kLossSum] = 3;
  slots[layout.bad(1)] = TicketLayout::bad_bucket(6);
  bad = bad_step(read_ticket(slots, {3}), 4);
  ASSERT_TRUE(bad);
  EXPECT_NE(bad->text.find("rank 1: a gradient of bucket 6"), std::string::npos) << bad->text;
}

}  // namespace
}  // namespace ddp
