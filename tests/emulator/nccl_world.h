// The world of an emulated NCCL communicator, and its collectives.
#pragma once

#include "comm/add.h"
#include "nccl.h"

#include <atomic>
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

// The elements that the ranks get: one part for each rank for reduce_scatter, else the same for all. Sums in f32, in
// rank order.
inline std::vector<float> result_of(const std::vector<Call>& calls) {
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
  return result;
}

// The rendezvous of a communicator's ranks: it matches the n-th collective of each rank. A rank's collective begins and
// ends in the rank's stream. The results are computed when the last rank has begun, and written where each rank ends.
class World {
 public:
  explicit World(int size) : begun_(size), ended_(size) {}

  void join() { ++joined_; }
  bool complete() const { return joined_ == std::ssize(begun_); }

  void begin(int rank, const Call& call) {
    const std::lock_guard lock(mutex_);
    Round& round = rounds_[++begun_[rank]];
    if (broken_) return;
    if (round.calls.empty())
      round.calls.resize(begun_.size());
    else
      check(round.first.agrees(call), "ranks run different collectives");
    round.first = round.calls[rank] = call;
    if (++round.begun < std::ssize(begun_)) return;
    round.result = result_of(round.calls);
    round.done = true;
  }
  bool may_end(int rank) {
    const std::lock_guard lock(mutex_);
    return broken_ || rounds_[ended_[rank] + 1].done;
  }
  void end(int rank) {
    const std::lock_guard lock(mutex_);
    const uint64_t n = ++ended_[rank];
    Round& round = rounds_[n];
    if (!round.done) return;  // broken
    const Call& call = round.calls[rank];
    const bool part = call.kind == Kind::reduce_scatter;
    const size_t begin = part ? rank * call.count : 0, count = part ? call.count : round.result.size();
    for (size_t i = 0; i < count; ++i) write(call, i, round.result[begin + i]);
    if (++round.ended == std::ssize(ended_)) rounds_.erase(n);
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
  }
  bool broken() const { return broken_; }

 private:
  struct Round {
    std::vector<Call> calls;
    Call first{};
    std::vector<float> result;
    int64_t begun = 0, ended = 0;
    bool done = false;
  };
  std::mutex mutex_;
  std::map<uint64_t, Round> rounds_;
  std::vector<uint64_t> begun_, ended_;
  std::atomic<int64_t> joined_ = 0;
  std::atomic<bool> broken_ = false;
};

}  // namespace fake_nccl
