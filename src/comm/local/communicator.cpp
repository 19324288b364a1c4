#include "comm/local/communicator.h"

#include "comm/add.h"
#include "comm/collective.h"
#include "comm/int8.h"
#include "comm/local/rendezvous.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

namespace ddp {
namespace {

void copy_part(const DeviceSpan& to, const DeviceSpan& from, int64_t begin, int64_t count) {
  const size_t width = size_of(to.dtype);
  if (count > 0 && to.data != from.data)
    std::memcpy(static_cast<char*>(to.data) + begin * width, static_cast<const char*>(from.data) + begin * width,
                count * width);
}

// Replaces the elements [begin, begin + count) of all spans by their sum, added in rank order in f32.
void sum_parts(const std::vector<Collective>& posts, int64_t begin, int64_t count) {
  std::array<float, 1024> sum;
  const bool f32 = posts[0].span.dtype == DType::f32;
  for (int64_t at = begin; at < begin + count; at += std::ssize(sum)) {
    const int64_t piece = std::min<int64_t>(std::ssize(sum), begin + count - at);
    sum.fill(0);
    for (const Collective& post : posts)
      for (int64_t i = 0; i < piece; ++i)
        sum[i] += f32 ? static_cast<const float*>(post.span.data)[at + i]
                      : float_of_bf16(static_cast<const uint16_t*>(post.span.data)[at + i]);
    for (const Collective& post : posts)
      for (int64_t i = 0; i < piece; ++i) {
        if (f32)
          static_cast<float*>(post.span.data)[at + i] = sum[i];
        else
          static_cast<uint16_t*>(post.span.data)[at + i] = bf16_of_float(sum[i]);
      }
  }
}

// As between hosts of one rank each. `owner` adds the values of the others; `everywhere`: all get the rounded sum.
void sum_block_in_int8(const std::vector<Collective>& posts, int64_t owner, int64_t at, int64_t count,
                       bool everywhere) {
  const auto ranks = std::ssize(posts);
  const auto values = [&](int64_t rank) { return static_cast<float*>(posts[rank].span.data) + at; };
  std::array<std::byte, int8_bytes(kInt8Block)> message;
  const auto round = [&](int64_t rank) {
    to_int8(values(rank), posts[rank].span.residual.from(at), count, message.data());
  };
  for (int64_t distance = 1; distance < ranks; ++distance) {
    round((owner + ranks - distance) % ranks);
    add_int8(message.data(), count, values(owner));
  }
  if (!everywhere) return;
  round(owner);
  for (int64_t rank = 0; rank < ranks; ++rank) from_int8(message.data(), count, values(rank));
}

// The elements [begin, begin + count) in blocks; `owner`: of all, or each block has the next one.
void sum_in_int8(const std::vector<Collective>& posts, int64_t begin, int64_t count, std::optional<int64_t> owner) {
  for (int64_t block = 0; block * kInt8Block < count; ++block)
    sum_block_in_int8(posts, owner.value_or(block % std::ssize(posts)), begin + block * kInt8Block,
                      std::min(kInt8Block, count - block * kInt8Block), !owner);
}

// Fills the undefined parts of a result with NaN, so that a test sees their use.
void fill_with_nan(const DeviceSpan& span, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    if (span.dtype == DType::f32)
      static_cast<float*>(span.data)[i] = std::numeric_limits<float>::quiet_NaN();
    else
      static_cast<uint16_t*>(span.data)[i] = 0x7fc0;
  }
}

void execute(const std::vector<Collective>& posts) {
  const Collective& shape = posts[0];
  const int64_t count = shape.span.count, part = count / std::ssize(posts);
  const bool in_int8 = shape.span.residual && posts.size() > 1;
  switch (shape.kind) {
    case Collective::Kind::all_reduce:
      in_int8 ? sum_in_int8(posts, 0, count, std::nullopt) : sum_parts(posts, 0, count);
      break;
    case Collective::Kind::reduce_scatter:
      if (!in_int8) sum_parts(posts, 0, count);
      for (int64_t r = 0; in_int8 && r < std::ssize(posts); ++r) sum_in_int8(posts, r * part, part, r);
      for (int64_t r = 0; r < std::ssize(posts); ++r) {
        fill_with_nan(posts[r].span, 0, r * part);
        fill_with_nan(posts[r].span, (r + 1) * part, count);
      }
      break;
    case Collective::Kind::all_gather:
      for (const Collective& to : posts)
        for (int64_t r = 0; r < std::ssize(posts); ++r) copy_part(to.span, posts[r].span, r * part, part);
      break;
    case Collective::Kind::broadcast:
      for (const Collective& to : posts) copy_part(to.span, posts[shape.root].span, 0, count);
      break;
  }
}

void execute(const std::vector<std::span<double>>& posts) {
  for (size_t i = 0; i < posts[0].size(); ++i) {
    double sum = 0;
    for (const auto& values : posts) sum += values[i];
    for (const auto& values : posts) values[i] = sum;
  }
}

bool same_on_all_ranks(const std::span<double>& a, const std::span<double>& b) { return a.size() == b.size(); }

std::string describe(const std::span<double>& values) { return fmt::format("all_reduce_host of {}", values.size()); }

struct World {
  explicit World(int size_)
      : size(size_),
        device(size, execute, ddp::same_on_all_ranks, ddp::describe),
        host(size, execute, same_on_all_ranks, describe) {}

  const int size;
  Rendezvous<Collective> device;
  Rendezvous<std::span<double>> host;  // host sums, not in the sequence of collectives
  std::mutex mutex;
  // The worlds of a split() under way, by number of the split and colour.
  std::map<std::pair<int, int>, std::shared_ptr<World>> parts;
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<World> world, int rank) : world_(std::move(world)), rank_(rank) {}
  ~LocalCommunicator() override {
    world_->device.leave(rank_);
    world_->host.leave(rank_);
  }

  int rank() const override { return rank_; }
  int size() const override { return world_->size; }

  Sequence all_reduce(DeviceSpan span) override { return start({Collective::Kind::all_reduce, span}); }
  Sequence reduce_scatter(DeviceSpan span) override {
    DDP_EXPECT(span.count % size() == 0);
    return start({Collective::Kind::reduce_scatter, span});
  }
  Sequence all_gather(DeviceSpan span) override {
    DDP_EXPECT(span.count % size() == 0);
    return start({Collective::Kind::all_gather, span});
  }
  Sequence broadcast(DeviceSpan span, int root) override { return start({Collective::Kind::broadcast, span, root}); }

  bool sums_in_int8() const override { return true; }
  HostPlace place() const override { return {rank_, world_->size}; }
  void wait(Sequence n) override { world_->device.wait(n); }
  Sequence completed() const override { return world_->device.done(); }
  void record_done_times() override { world_->device.record_times(kDoneTimes); }
  std::optional<int64_t> done_ns(Sequence n) const override { return world_->device.time_of(n); }
  void progress() override {}  // the last rank to post does the work
  void all_reduce_host(std::span<double> values) override { world_->host.wait(world_->host.post(rank_, values)); }
  void barrier() override { all_reduce_host({}); }

  std::unique_ptr<Communicator> split(int colour) override {
    std::vector<double> colours(size());
    colours[rank_] = colour;
    all_reduce_host(colours);
    const auto members = static_cast<int>(std::count(colours.begin(), colours.end(), colour));
    const auto position = static_cast<int>(std::count(colours.begin(), colours.begin() + rank_, colour));
    const std::pair key(splits_++, colour);
    std::shared_ptr<World> part;
    {
      const std::lock_guard lock(world_->mutex);
      auto& shared = world_->parts[key];
      if (!shared) shared = std::make_shared<World>(members);
      part = shared;
    }
    barrier();
    const std::lock_guard lock(world_->mutex);
    world_->parts.erase(key);
    return std::make_unique<LocalCommunicator>(part, position);
  }

 private:
  Sequence start(const Collective& collective) { return world_->device.post(rank_, collective); }

  std::shared_ptr<World> world_;
  int rank_, splits_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_local_communicators(int size) {
  const auto world = std::make_shared<World>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<LocalCommunicator>(world, rank));
  return ranks;
}

}  // namespace ddp
