// Runs a kernel: one block after another. A thread of a block is a lane.
//
// A fiber takes a lane that has not started, runs it to its end, and takes the next one. So a kernel whose threads
// never wait is a loop on one fiber. A lane that waits keeps its fiber; another fiber continues with a lane whose wait
// is over, or else with a lane that has not started. If there is no such lane, the block is done or stuck. The seed
// decides whether blocks and lanes run in ascending or descending order.
//
// A store of __stcg reaches memory when its lane has made a fence and then a lane of its block an atomic operation, or
// else at the end of the kernel. So a block that counts itself as done before its stores are visible is seen.
//
// A block of a programmatic launch runs to cudaGridDependencySynchronize() before the kernel in front of it ends. So a
// kernel that uses memory before that call is seen.
#include "grid.h"

#include "emulator/emulator.h"
#include "emulator/threads.h"
#include "fiber.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace emulator {
// A value of __stcg that is not in memory yet.
struct Store {
  void* address;
  std::array<std::byte, 16> value;
  size_t bytes;
  void write() const { std::memcpy(address, value.data(), bytes); }
};

enum class Wait { none, block, warp, grid, returned };

struct Lane {
  Fiber* fiber = nullptr;
  Wait wait = Wait::none;
  WarpOp op{};
  unsigned mask = 0;
  int source = 0;
  uint64_t value = 0;              // input of the warp operation, then its result
  std::vector<Store> stores = {};  // since its last fence
  bool synchronized = false;       // with the grid in front of this one
};

uint3 unflatten(unsigned i, dim3 size) {
  if (size.y == 1 && size.z == 1) return {i, 0, 0};
  return {i % size.x, i / size.x % size.y, i / size.x / size.y};
}

// Idle fibers of host threads that have ended. New fibers cost page faults, most of all under the address sanitizer,
// which maps a second stack for each and keeps it.
class FiberPool {
 public:
  std::unique_ptr<Fiber> take() {
    const std::lock_guard lock(mutex_);
    if (fibers_.empty()) return nullptr;
    std::unique_ptr<Fiber> fiber = std::move(fibers_.back());
    fibers_.pop_back();
    return fiber;
  }
  void give(std::vector<std::unique_ptr<Fiber>> fibers) {
    const std::lock_guard lock(mutex_);
    std::move(fibers.begin(), fibers.end(), std::back_inserter(fibers_));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
};

FiberPool& fiber_pool() {
  static FiberPool& pool = *new FiberPool;  // outlives the threads that end after main()
  return pool;
}

class Grid {
 public:
  ~Grid() { fiber_pool().give(std::move(fibers_)); }
  void run(dim3 grid, dim3 block, const std::function<void()>& thread);
  void begin_early(dim3 grid, dim3 block, const std::function<void()>& thread);
  void finish();
  void await_grid();
  uint64_t warp_operation(WarpOp op, unsigned mask, uint64_t value, int source);
  int block_barrier(bool predicate);
  int lane_id() const { return static_cast<int>(current_) % warpSize; }
  void store(void* address, const void* value, size_t bytes);
  void fence();
  void release();

 private:
  static void serve();
  void prepare(dim3 grid, dim3 block, const std::function<void()>& thread);
  void resume();
  void start_block();
  void end_block();
  bool start_lane();
  void lane_returned();
  bool complete_barrier();
  bool complete_warp(unsigned index);
  void wake(unsigned index);
  void park();
  Fiber& next();
  void go_to(Fiber& to);
  [[noreturn]] void stuck(const char* why) const;

  const std::function<void()>* thread_ = nullptr;
  unsigned count_ = 0, started_ = 0, returned_ = 0;
  unsigned at_barrier_ = 0, at_warp_ = 0;  // lanes that wait at a block barrier, at a warp operation
  unsigned at_grid_ = 0;                   // lanes that wait for the grid in front
  unsigned block_ = 0;                     // the number of blocks that have ended
  dim3 grid_dim_{}, block_dim_{};
  uint64_t order_ = 0;
  bool programmatic_ = false, early_ = false;
  unsigned current_ = 0;  // running lane
  int votes_ = 0, result_ = 0;
  bool descending_ = false;
  std::vector<Lane> lanes_;
  std::deque<unsigned> awake_;  // lanes whose wait is over
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<Store> fenced_,
      late_;  // stores before fences, of this block; those that no atomic operation made visible
  Fiber *own_ = nullptr, *running_ = nullptr;  // own_: the host thread's flow
};

namespace {

thread_local Grid* running_grid = nullptr;

// Not inlined and not analysed, because a fiber may resume on another host thread than before.
[[gnu::noipa]] Grid& this_grid() { return *running_grid; }

Fiber& host_flow() {
  thread_local Fiber flow;
  return flow;
}

}  // namespace

void Grid::prepare(dim3 grid, dim3 block, const std::function<void()>& thread) {
  thread_ = &thread;
  grid_dim_ = grid;
  block_dim_ = block;
  count_ = block.x * block.y * block.z;
  order_ = draw();
  descending_ = (order_ & 1) != 0;
  block_ = 0;
}

// Makes this the running grid of the host thread.
void Grid::resume() {
  running_grid = this;
  own_ = running_ = &host_flow();
  gridDim = grid_dim_;
  blockDim = block_dim_;
  const unsigned blocks = grid_dim_.x * grid_dim_.y * grid_dim_.z;
  if (block_ < blocks) blockIdx = unflatten((order_ & 2) != 0 ? blocks - 1 - block_ : block_, grid_dim_);
}

void Grid::start_block() {
  resume();
  started_ = returned_ = 0;
  lanes_.assign(count_, Lane{});
  go_to(next());
}

void Grid::end_block() {
  for (const Lane& lane : lanes_) {
    if (programmatic_ && !lane.synchronized) stuck("a thread has not called cudaGridDependencySynchronize()");
    std::ranges::copy(lane.stores, std::back_inserter(late_));
  }
  std::ranges::move(fenced_, std::back_inserter(late_));
  fenced_.clear();
  ++block_;
}

void Grid::run(dim3 grid, dim3 block, const std::function<void()>& thread) {
  prepare(grid, block, thread);
  finish();
}

void Grid::begin_early(dim3 grid, dim3 block, const std::function<void()>& thread) {
  prepare(grid, block, thread);
  programmatic_ = early_ = true;
  start_block();
  early_ = false;
}

void Grid::finish() {
  const unsigned blocks = grid_dim_.x * grid_dim_.y * grid_dim_.z;
  if (programmatic_) {
    resume();
    current_ = count_;
    for (unsigned i = 0; i < count_; ++i)
      if (lanes_[i].wait == Wait::grid) wake(i);
    at_grid_ = 0;
    if (returned_ < count_) go_to(next());
    end_block();
  }
  while (block_ < blocks) {
    start_block();
    end_block();
  }
  for (const Store& store : late_) store.write();
  late_.clear();
}

void Grid::await_grid() {
  lanes_[current_].synchronized = true;
  if (!early_) return;
  lanes_[current_].wait = Wait::grid;
  ++at_grid_;
  park();
}

void Grid::store(void* address, const void* value, size_t bytes) {
  Store& store = lanes_[current_].stores.emplace_back(Store{.address = address, .value = {}, .bytes = bytes});
  if (bytes > store.value.size()) stuck("a store has more than 16 bytes");
  std::memcpy(store.value.data(), value, bytes);
}

void Grid::fence() {
  std::ranges::move(lanes_[current_].stores, std::back_inserter(fenced_));
  lanes_[current_].stores.clear();
}

void Grid::release() {
  for (const Store& store : fenced_) store.write();
  fenced_.clear();
}

// The body of every fiber.
void Grid::serve() {
  for (;;) {
    Grid& grid = this_grid();
    while (grid.start_lane()) {
      (*grid.thread_)();
      grid.lane_returned();
    }
    grid.idle_.push_back(grid.running_);
    grid.go_to(grid.next());
  }
}

bool Grid::start_lane() {
  if (!awake_.empty() || started_ == count_) return false;
  current_ = descending_ ? count_ - 1 - started_ : started_;
  ++started_;
  threadIdx = unflatten(current_, blockDim);
  return true;
}

void Grid::lane_returned() {
  lanes_[current_].wait = Wait::returned;
  ++returned_;
  if (at_barrier_ > 0) complete_barrier();
  if (at_warp_ == 0) return;
  const unsigned first = current_ / warpSize * warpSize;
  for (unsigned i = first; i < std::min(first + warpSize, count_); ++i)
    if (lanes_[i].wait == Wait::warp) complete_warp(i);
}

int Grid::block_barrier(bool predicate) {
  lanes_[current_].wait = Wait::block;
  ++at_barrier_;
  votes_ += predicate;
  if (!complete_barrier()) park();
  return result_;
}

bool Grid::complete_barrier() {
  if (at_barrier_ + returned_ < count_) return false;
  for (unsigned i = 0; i < count_; ++i)
    if (lanes_[i].wait == Wait::block) wake(i);
  at_barrier_ = 0;
  result_ = std::exchange(votes_, 0);
  return true;
}

uint64_t Grid::warp_operation(WarpOp op, unsigned mask, uint64_t value, int source) {
  Lane& lane = lanes_[current_];
  lane.wait = Wait::warp;
  lane.op = op;
  lane.mask = mask;
  lane.source = source;
  lane.value = value;
  ++at_warp_;
  if ((mask >> lane_id() & 1) == 0) stuck("a thread's own bit is not in the mask of its warp operation");
  if (!complete_warp(current_)) park();
  return lane.value;
}

// A missing lane gives a value with all bits set, which is a NaN.
bool Grid::complete_warp(unsigned index) {
  const unsigned first = index / warpSize * warpSize;
  const Lane like = lanes_[index];
  std::array<uint64_t, warpSize> values;
  values.fill(~uint64_t{0});
  std::array<bool, warpSize> takes_part{};
  uint64_t ballot = 0;
  for (unsigned i = 0; i < warpSize && first + i < count_; ++i) {
    const Lane& lane = lanes_[first + i];
    if ((like.mask >> i & 1) == 0 || lane.wait == Wait::returned) continue;
    if (lane.wait != Wait::warp || lane.mask != like.mask || lane.op != like.op) return false;
    takes_part[i] = true;
    values[i] = lane.value;
    ballot |= lane.value << i;
  }
  for (unsigned i = 0; i < warpSize; ++i) {
    if (!takes_part[i]) continue;
    Lane& lane = lanes_[first + i];
    if (lane.op == WarpOp::shuffle) lane.value = values[static_cast<size_t>(lane.source)];
    if (lane.op == WarpOp::ballot) lane.value = ballot;
    --at_warp_;
    wake(first + i);
  }
  return true;
}

void Grid::wake(unsigned index) {
  lanes_[index].wait = Wait::none;
  if (index != current_) awake_.push_back(index);
}

void Grid::park() {
  const unsigned self = current_;
  lanes_[self].fiber = running_;
  go_to(next());
  current_ = self;
  threadIdx = unflatten(self, blockDim);
}

Fiber& Grid::next() {
  if (!awake_.empty()) {
    const unsigned lane = awake_.front();
    awake_.pop_front();
    return *lanes_[lane].fiber;
  }
  if (started_ < count_) {
    if (idle_.empty()) {
      std::unique_ptr<Fiber> pooled = fiber_pool().take();
      return *fibers_.emplace_back(pooled ? std::move(pooled) : std::make_unique<Fiber>(&Grid::serve));
    }
    Fiber& fiber = *idle_.back();
    idle_.pop_back();
    return fiber;
  }
  if (returned_ < count_ && at_grid_ == 0) stuck("every thread that has not returned waits");
  return *own_;
}

void Grid::go_to(Fiber& to) {
  Fiber& from = *running_;
  running_ = &to;
  Fiber::switch_to(from, to);
}

void Grid::stuck(const char* why) const {
  std::fprintf(stderr,
               "emulator: a kernel is stuck in block (%u, %u, %u) of %u threads: %s; %u at __syncthreads, %u at a warp "
               "operation, %u have returned\n",
               blockIdx.x, blockIdx.y, blockIdx.z, count_, why, at_barrier_, at_warp_, returned_);
  std::abort();
}

uint64_t warp_operation(WarpOp op, unsigned mask, uint64_t value, int source) {
  return this_grid().warp_operation(op, mask, value, source);
}

int block_barrier(bool predicate) { return this_grid().block_barrier(predicate); }
void release() { this_grid().release(); }
void store_unordered(void* address, const void* value, size_t bytes) { this_grid().store(address, value, bytes); }
int lane_id() { return this_grid().lane_id(); }

void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& thread) {
  thread_local Grid grid;
  grid.run(blocks, threads, thread);
}

EarlyGrid::EarlyGrid(dim3 blocks, dim3 threads, std::shared_ptr<const std::function<void()>> thread)
    : thread_(std::move(thread)), grid_(std::make_unique<Grid>()) {
  grid_->begin_early(blocks, threads, *thread_);
}
EarlyGrid::~EarlyGrid() = default;
void EarlyGrid::finish() { grid_->finish(); }

}  // namespace emulator

void cudaGridDependencySynchronize() { emulator::this_grid().await_grid(); }

void __threadfence() {
  __sync_synchronize();
  emulator::this_grid().fence();
}
