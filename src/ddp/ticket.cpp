#include "ddp/ticket.h"

#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

constexpr int64_t kStepModulus = 1 << 20;  // exact in f32, with room to spare

}  // namespace

void write_ticket(std::span<float> slots, const TicketLayout& layout, int rank, int64_t samples, int64_t step,
                  Request request) {
  DDP_EXPECT(std::ssize(slots) == layout.elements() && rank >= 0 && rank < layout.world);
  std::fill(slots.begin(), slots.end(), 0.0f);
  slots[TicketLayout::kSamples] = static_cast<float>(samples);
  slots[layout.request(rank)] = static_cast<float>(request);
  slots[layout.step(rank)] = static_cast<float>(step % kStepModulus);
}

Ticket read_ticket(std::span<const float> summed, const TicketLayout& layout) {
  DDP_EXPECT(std::ssize(summed) == layout.elements());
  const auto slots = [&](int64_t from) { return summed.subspan(from, layout.world); };
  return {.loss_sum = summed[TicketLayout::kLossSum],
          .correct = summed[TicketLayout::kCorrect],
          .samples = std::llround(summed[TicketLayout::kSamples]),
          .divisor = summed[layout.divisor()],
          .squares = summed[TicketLayout::kSquares],
          .request = slots(layout.request(0)),
          .bad = slots(layout.bad(0)),
          .step = slots(layout.step(0))};
}

Request Ticket::requested() const { return static_cast<Request>(*std::max_element(request.begin(), request.end())); }

void check_agreement(const Ticket& ticket, int64_t step, int64_t expected_samples, bool excludes) {
  const auto expected = static_cast<float>(step % kStepModulus);
  if (std::any_of(ticket.step.begin(), ticket.step.end(), [&](float s) { return s != expected; }))
    throw CollectiveError(
        Exit::communication,
        fmt::format("ranks are not at the same step: {} is expected, ranks 0 to {} are at {} (modulo {}). "
                    "This is a bug: please report it",
                    expected, ticket.step.size() - 1, fmt::join(ticket.step, ", "), kStepModulus));
  const bool too_few = excludes ? ticket.samples < 0 : ticket.samples < expected_samples;
  if (too_few || ticket.samples > expected_samples)
    throw CollectiveError(Exit::communication, fmt::format("step {} saw {} samples over all ranks, {} were planned",
                                                           step, ticket.samples, expected_samples));
}

bool ends_unread(const Ticket& ticket) { return std::ranges::count(ticket.bad, TicketLayout::kUnreadable) > 0; }

std::optional<BadStep> bad_step(const Ticket& ticket, int64_t step) {
  const bool finite_loss = std::isfinite(ticket.loss_sum);
  for (size_t rank = 0; rank < ticket.bad.size(); ++rank) {
    const float bad = ticket.bad[rank];
    if (bad == 0) continue;
    if (bad == TicketLayout::kNoSamples) return BadStep{true, fmt::format("no picture of step {} can be read", step)};
    const std::string what = !finite_loss ? "the loss"
                             : bad == TicketLayout::kBadBnSums
                                 ? "the input of a batch norm"
                                 : fmt::format("a gradient of bucket {}", bad - TicketLayout::bad_bucket(0));
    return BadStep{true, fmt::format("NaN or infinity at step {} on rank {}: {}", step, rank, what)};
  }
  if (finite_loss) return std::nullopt;
  return BadStep{false, fmt::format("NaN or infinity at step {}: the loss, though all gradients are finite", step)};
}

}  // namespace ddp
