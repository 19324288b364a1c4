// The ticket: a few f32 numbers of a step that are summed with the gradients. Each rank writes its values, and the sums
// give all ranks the same values. A slot with [world] has one element for each rank; the other ranks write 0 there.
//
//   | loss sum | correct | samples | squares | request[world] | bad[world] | step[world] | weights, if weighted |
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddp {

// A rank's request to all ranks; the maximum wins. exclude: it could not read a picture, and tells the others which.
enum class Request : uint8_t { none, exclude, save, stop };

struct TicketLayout {
  int world = 1;
  bool weighted = false;  // the loss of a sample has the weight of its label

  static constexpr int64_t kLossSum = 0, kCorrect = 1, kSamples = 2, kSquares = 3;
  static constexpr float kBadBnSums = -1;   // mark in `bad`: NaN or infinity in batch-norm sums
  static constexpr float kNoSamples = -2;   // mark in `bad`: all samples of the step are excluded
  static constexpr float kUnreadable = -3;  // mark in `bad`: this rank could not read a sample, which ends the run
  // Mark in `bad`: NaN or infinity in a gradient of this bucket. 0: all values are finite.
  static constexpr float bad_bucket(int bucket) { return 1.0f + static_cast<float>(bucket); }

  int64_t elements() const { return weights() + (weighted ? 1 : 0); }
  int64_t request(int rank) const { return kSquares + 1 + rank; }
  int64_t bad(int rank) const { return request(0) + world + rank; }
  int64_t step(int rank) const { return request(0) + 2 * world + rank; }
  int64_t weights() const { return request(0) + 3 * int64_t{world}; }  // sum of the weights of the samples' labels
  // What divides the sum of the losses: the sum of the weights, or the number of samples.
  int64_t divisor() const { return weighted ? weights() : kSamples; }
};

// Writes this rank's ticket before the sum. The device adds loss sum, correct, squares and bad. `samples`: of this
// rank. `step`: optimizer steps over all epochs, from 1. The caller writes the sum of the weights.
void write_ticket(std::span<float> slots, const TicketLayout& layout, int rank, int64_t samples, int64_t step,
                  Request request = Request::none);

// A summed ticket.
struct Ticket {
  double loss_sum = 0;  // over the samples of the step
  double correct = 0;   // sum over the samples: 1 or 0, or of tokens the share of the right ones
  int64_t samples = 0;
  double divisor = 0;  // of the loss sum
  double squares = 0;  // of the norms of the ranks' parts of the gradient, before their sum; for one rank, 0 or that of
                       // its first micro-batch: see noise_scale.h
  std::span<const float> request, bad, step;  // by rank; views of the span that was read

  Request requested() const;
};

Ticket read_ticket(std::span<const float> summed, const TicketLayout& layout);

// Throws CollectiveError(Exit::communication) if a rank is at another step or samples are missing; the text has the
// values of each rank. The ticket holds the step modulo 2^20. `excludes`: samples may be excluded.
void check_agreement(const Ticket& ticket, int64_t step, int64_t expected_samples, bool excludes = false);

// Whether a rank could not read a sample of this step, or of a step before it, and the run ends: the weights did not
// change.
bool ends_unread(const Ticket& ticket);

// A step with NaN or infinity on some rank.
struct BadStep {
  bool skipped = false;  // a rank marked it, so the weights did not change
  std::string text;      // names step, rank and bucket
};
std::optional<BadStep> bad_step(const Ticket& ticket, int64_t step);

}  // namespace ddp
