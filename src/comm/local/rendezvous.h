// A rendezvous of ranks that are threads. Each rank posts its part of round n and continues. The last rank to post
// executes the round; rounds run one at a time and in order. If the posts of a round differ (`Same`), or a rank leaves
// before a round that others have posted, every rank gets Error(Exit::internal).
#pragma once

#include "core/error.h"
#include "core/stopwatch.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

template <class Post>
class Rendezvous {
 public:
  using Execute = void (*)(const std::vector<Post>&);  // posts by rank
  using Same = bool (*)(const Post&, const Post&);
  using Describe = std::string (*)(const Post&);

  Rendezvous(int size, Execute execute, Same same, Describe describe)
      : execute_(execute), same_(same), describe_(describe), posted_(size), left_(size) {}

  uint64_t post(int rank, const Post& post) {
    std::unique_lock lock(mutex_);
    throw_failure(lock);
    const uint64_t n = ++posted_[rank];
    if (rounds_.size() < n - done_) rounds_.push_back({.posts = std::vector<Post>(posted_.size())});
    Round& round = rounds_[n - done_ - 1];
    if (round.arrived == 0) round.first_rank = rank;
    round.posts[rank] = post;
    const Post& first = round.posts[round.first_rank];
    if (!same_(first, post))
      fail_all(fmt::format("ranks disagree about collective {}: rank {} started a {}, rank {} a {}", n,
                           round.first_rank, describe_(first), rank, describe_(post)));
    for (size_t other = 0; other < left_.size(); ++other)
      if (left_[other] && posted_[other] < n) fail_left(static_cast<int>(other));
    throw_failure(lock);
    if (++round.arrived == std::ssize(posted_) && !executing_) execute_complete_rounds(lock);
    return n;
  }

  void wait(uint64_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= n || !failure_.empty(); });
    if (done_ < n) throw_failure(lock);
  }

  uint64_t done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }

  // Keeps the times of the last `kept` rounds, on the steady clock.
  void record_times(size_t kept) {
    const std::lock_guard lock(mutex_);
    if (done_ns_.empty()) done_ns_.assign(kept, 0);
  }
  std::optional<int64_t> time_of(uint64_t n) const {
    const std::lock_guard lock(mutex_);
    if (done_ns_.empty() || n > done_ || n + done_ns_.size() <= done_ || done_ns_[n % done_ns_.size()] == 0)
      return std::nullopt;
    return done_ns_[n % done_ns_.size()];
  }

  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    left_[rank] = true;
    for (size_t other = 0; other < posted_.size(); ++other)
      if (posted_[other] > posted_[rank]) fail_left(rank);
  }

 private:
  struct Round {
    std::vector<Post> posts;
    int64_t arrived = 0;
    int first_rank = 0;
  };

  void execute_complete_rounds(std::unique_lock<std::mutex>& lock) {
    executing_ = true;
    while (!rounds_.empty() && rounds_.front().arrived == std::ssize(posted_) && failure_.empty()) {
      const Round& round = rounds_.front();  // keeps its address while the deque grows at the back
      lock.unlock();
      execute_(round.posts);
      lock.lock();
      rounds_.pop_front();
      ++done_;
      if (!done_ns_.empty()) done_ns_[done_ % done_ns_.size()] = steady_ns();
      changed_.notify_all();
    }
    executing_ = false;
    changed_.notify_all();
  }

  void fail_left(int rank) {
    fail_all(fmt::format("rank {} left after {} collectives while others wait for more", rank, posted_[rank]));
  }
  void fail_all(const std::string& text) {
    if (failure_.empty()) failure_ = text;
    changed_.notify_all();
  }
  // Waits until no rank executes a round: that round uses memory that this rank frees when it unwinds.
  void throw_failure(std::unique_lock<std::mutex>& lock) {
    if (failure_.empty()) return;
    changed_.wait(lock, [&] { return !executing_; });
    throw Error(Exit::internal, failure_);
  }

  const Execute execute_;
  const Same same_;
  const Describe describe_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> posted_;  // number of posted rounds, by rank
  std::vector<bool> left_;
  std::deque<Round> rounds_;  // the first is round done_ + 1
  uint64_t done_ = 0;
  std::vector<int64_t> done_ns_;  // the time of round n is at index n mod its size; 0: not recorded
  bool executing_ = false;
  std::string failure_;
};

}  // namespace ddp
