// The world of an emulated NCCL communicator, and its collectives.
#pragma once

#include "comm/add.h"
#include "nccl.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace fake_nccl {

inline void check(bool holds, const char* why) {
  if (holds) return;
  std::fprintf(stderr, "fake NCCL: %s\n", why);
  std::abort();
}

enum class Kind { sum, reduce_scatter, all_gather, broadcast };
struct Call {
  Kind kind;
  const void* from;
  void* to;
  size_t count;  // caller's argument
  ncclDataType_t type;
  int root;
  bool agrees(const Call& p) const { return kind == p.kind && count == p.count && type == p.type && root == p.root; }
};

inline float read(const Call& call, size_t i) {
  return call.type == ncclFloat32 ? static_cast<const float*>(call.from)[i]
                                  : ddp::float_of_bf16(static_cast<const uint16_t*>(call.from)[i]);
}
inline void write(const Call& call, size_t i, float value) {
  if (call.type == ncclFloat32)
    static_cast<float*>(call.to)[i] = value;
  else
    static_cast<uint16_t*>(call.to)[i] = ddp::bf16_of_float(value);
}

// Reads all inputs before it writes, because `from` and `to` may be the same memory. Sums in f32, in rank order.
inline void execute(const std::vector<Call>& calls) {
  const Call& p = calls[0];
  const size_t ranks = calls.size();
  std::vector<float> result(p.kind == Kind::reduce_scatter || p.kind == Kind::all_gather ? p.count * ranks : p.count);
  for (size_t i = 0; i < result.size(); ++i) {
    if (p.kind == Kind::all_gather)
      result[i] = read(calls[i / p.count], i % p.count);
    else if (p.kind == Kind::broadcast)
      result[i] = read(calls[p.root], i);
    else
      for (const Call& call : calls) result[i] += read(call, i);
  }
  for (size_t r = 0; r < ranks; ++r) {
    const size_t begin = p.kind == Kind::reduce_scatter ? r * p.count : 0;
    const size_t count = p.kind == Kind::reduce_scatter ? p.count : result.size();
    for (size_t i = 0; i < count; ++i) write(calls[r], i, result[begin + i]);
  }
}

// The rendezvous of a communicator's ranks: it matches the n-th collective of each rank.
class World {
 public:
  explicit World(int size) : ran_(size) {}

  void arrive() { ++arrived_; }
  bool complete() const { return arrived_ == std::ssize(ran_); }

  void run(int rank, const Call& call) {
    std::unique_lock lock(mutex_);
    Round& round = rounds_[++ran_[rank]];
    if (broken_) return;
    round.calls.resize(ran_.size());
    if (round.arrived++ > 0) check(round.first.agrees(call), "ranks run different collectives");
    round.first = round.calls[rank] = call;
    if (round.arrived < std::ssize(ran_)) {
      changed_.wait(lock, [&] { return round.done || broken_; });
      return;
    }
    execute(round.calls);
    round.done = true;
    changed_.notify_all();
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }
  bool broken() const { return broken_; }

 private:
  struct Round {
    std::vector<Call> calls;
    Call first{};
    int64_t arrived = 0;
    bool done = false;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Round> rounds_;
  std::vector<uint64_t> ran_;
  std::atomic<int64_t> arrived_ = 0;
  std::atomic<bool> broken_ = false;
};

}  // namespace fake_nccl
