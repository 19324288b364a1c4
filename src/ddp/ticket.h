// The few numbers of a step that are summed behind the gradients, always f32. All ranks write their part, the sum
// tells every rank the same. Each per-rank slot is written by its rank and left 0 by the others.
//
//   | loss sum | correct | samples | request[world] | bad[world] | step[world] |
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddp {

// What a rank asks of all; the greatest is heeded.
enum class Request : uint8_t { none, save, stop };

struct TicketLayout {
  int world = 1;

  static constexpr int64_t kLossSum = 0, kCorrect = 1, kSamples = 2;
  static constexpr float kBadStatistics = -1;                                                  // of batch norms
  static constexpr float bad_bucket(int bucket) { return 1.0f + static_cast<float>(bucket); }  // 0: all is finite

  int64_t elements() const { return 3 + 3 * int64_t{world}; }
  int64_t request(int rank) const { return 3 + rank; }
  int64_t bad(int rank) const { return 3 + world + rank; }
  int64_t step(int rank) const { return 3 + 2 * world + rank; }
};

// What this rank's ticket holds before the sum; loss sum, correct and bad are added by the device.
void write_ticket(std::span<float> slots, const TicketLayout& layout, int rank, int64_t samples, int64_t step,
                  Request request = Request::none);

// What a summed ticket says.
struct Ticket {
  double loss_sum = 0;  // over the global batch
  int64_t correct = 0, samples = 0;
  std::span<const float> request, bad, step;  // by rank; views of what was read

  Request requested() const;
};

Ticket read_ticket(std::span<const float> summed, int world);

// Throws CollectiveError(Exit::communication), with the values of each rank, where a rank is at another step or samples
// are missing. Step counts over all epochs and rides modulo 2^20.
void check_agreement(const Ticket& ticket, int64_t step, int64_t expected_samples);

// A step in which a rank has seen NaN or infinity.
struct BadStep {
  bool skipped = false;  // a gradient had it, so the weights were left alone
  std::string text;      // names step, rank and bucket
};
std::optional<BadStep> bad_step(const Ticket& ticket, int64_t step);

}  // namespace ddp
