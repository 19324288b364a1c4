// Where the ranks of a fake NCCL communicator meet, and what they do there.
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

inline void insist(bool holds, const char* why) {
  if (holds) return;
  std::fprintf(stderr, "fake NCCL: %s\n", why);
  std::abort();
}

enum class Kind { sum, reduce_scatter, all_gather, broadcast };
struct Post {
  Kind kind;
  const void* from;
  void* to;
  size_t count;  // as the caller gave it
  ncclDataType_t type;
  int root;
  bool agrees(const Post& p) const { return kind == p.kind && count == p.count && type == p.type && root == p.root; }
};

inline float read(const Post& post, size_t i) {
  return post.type == ncclFloat32 ? static_cast<const float*>(post.from)[i]
                                  : ddp::float_of_bf16(static_cast<const uint16_t*>(post.from)[i]);
}
inline void write(const Post& post, size_t i, float value) {
  if (post.type == ncclFloat32)
    static_cast<float*>(post.to)[i] = value;
  else
    static_cast<uint16_t*>(post.to)[i] = ddp::bf16_of_float(value);
}

// Reads everything before it writes anything, as `from` and `to` may be the same memory. Sums are in rank order, in
// f32.
inline void execute(const std::vector<Post>& posts) {
  const Post& p = posts[0];
  const size_t ranks = posts.size();
  std::vector<float> result(p.kind == Kind::reduce_scatter || p.kind == Kind::all_gather ? p.count * ranks : p.count);
  for (size_t i = 0; i < result.size(); ++i) {
    if (p.kind == Kind::all_gather)
      result[i] = read(posts[i / p.count], i % p.count);
    else if (p.kind == Kind::broadcast)
      result[i] = read(posts[p.root], i);
    else
      for (const Post& post : posts) result[i] += read(post, i);
  }
  for (size_t r = 0; r < ranks; ++r) {
    const size_t begin = p.kind == Kind::reduce_scatter ? r * p.count : 0;
    const size_t count = p.kind == Kind::reduce_scatter ? p.count : result.size();
    for (size_t i = 0; i < count; ++i) write(posts[r], i, result[begin + i]);
  }
}

// Where the ranks of a communicator meet: the n-th collective that one rank's device runs is the n-th of all.
class World {
 public:
  explicit World(int size) : ran_(size) {}

  void arrive() { ++arrived_; }
  bool complete() const { return arrived_ == std::ssize(ran_); }

  void run(int rank, const Post& post) {
    std::unique_lock lock(mutex_);
    Round& round = rounds_[++ran_[rank]];
    if (broken_) return;
    round.posts.resize(ran_.size());
    if (round.arrived++ > 0) insist(round.first.agrees(post), "ranks run different collectives");
    round.first = round.posts[rank] = post;
    if (round.arrived < std::ssize(ran_)) {
      changed_.wait(lock, [&] { return round.done || broken_; });
      return;
    }
    execute(round.posts);
    round.done = true;
    changed_.notify_all();
  }
  void shatter() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }
  bool broken() const { return broken_; }

 private:
  struct Round {
    std::vector<Post> posts;
    Post first{};
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
