// Collectives in a window whose ranks are threads, so that the thread sanitizer sees them.
#include "comm/shm/window_collective.h"
#include "core/error.h"
#include "tests/comm/forwarding_communicator.h"
#include "tests/comm/int8_sums.h"
#include "tests/comm/numbers.h"
#include "tests/comm/rank_values.h"
#include "tests/comm/ranks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace ddp {
namespace {

using Kind = Collective::Kind;

constexpr BlockRule kBlocks{.bytes = 4096};
constexpr int64_t kSmall = 1024;

// A link between hosts that are groups of threads. Its ranks may block, as each has a thread.
class LocalLink final : public HostLink {
 public:
  explicit LocalLink(Communicator& lane) : lane_(lane) {}  // ranks in the order of their hosts
  void start(std::byte* data, const Residual& residual, const Pieces& pieces, Kind kind, DType dtype,
             HostPieces& host) override {
    for (int chunk = 0; chunk < pieces.hosts(); ++chunk)
      for (const Piece& piece : pieces.chunk(chunk)) {
        DeviceSpan span{data + piece.begin, piece.bytes / static_cast<int64_t>(size_of(dtype)), dtype};
        span.residual = residual.from(piece.begin / static_cast<int64_t>(sizeof(float)));
        const bool is_own = chunk == lane_.rank();
        if (kind != Kind::all_gather || is_own) host.collect(piece);
        lane_.wait(kind == Kind::all_gather ? lane_.broadcast(span, chunk) : lane_.all_reduce(span));
        if (kind != Kind::reduce_scatter || is_own) host.spread(piece);
      }
  }
  void start_small(std::byte* data, int64_t, int64_t bytes, DType dtype) override {
    lane_.wait(lane_.all_reduce({data, bytes / static_cast<int64_t>(size_of(dtype)), dtype}));
  }
  bool advance() override { return true; }
  int64_t messages() const override { return 0; }
  void abandon() override {}

 private:
  Communicator& lane_;
};

struct Case {
  std::vector<int> hosts;  // of the ranks
  DType dtype = DType::f32;
};

// One rank: its window, and a collective for each slot.
class Rank {
 public:
  Rank(Communicator& comm, const Case& c, std::vector<std::shared_ptr<std::byte>>& heads) : comm_(comm) {
    WindowConfig config{.layout = HostLayout(c.hosts), .rule = kBlocks, .small_bytes = kSmall, .rank = comm.rank()};
    config.rule.lanes = config.layout.lanes;
    config.rule.hosts = config.layout.hosts;
    const int host = config.layout.host[config.rank], local = config.layout.local[config.rank];
    lane_ = comm.split(local < config.layout.lanes ? local : 1000 + config.rank);
    window_ = std::make_shared<Window>(heads[host], local, config.layout.ranks_on(host), config.rule,
                                       [&comm](bool mine) { return !comm.any(!mine); });
    const bool linked = config.layout.hosts > 1 && local < config.layout.lanes;
    for (int slot = 0; slot < Window::kSlots; ++slot)
      slots_.push_back(std::make_unique<WindowCollective>(config, window_, slot,
                                                          linked ? std::make_unique<LocalLink>(*lane_) : nullptr));
  }
  ~Rank() { comm_.barrier(); }  // the others have unmapped nothing yet

  Window& window() { return *window_; }
  WindowCollective& slot(int number) { return *slots_[number]; }
  void run(Kind kind, DeviceSpan span) {
    const int slot = static_cast<int>(++runs_ % Window::kSlots);
    slots_[slot]->start({kind, span});
    while (!slots_[slot]->advance()) std::this_thread::yield();
  }

 private:
  Communicator& comm_;
  std::unique_ptr<Communicator> lane_;
  std::shared_ptr<Window> window_;
  std::vector<std::unique_ptr<WindowCollective>> slots_;
  int runs_ = 0;
};

void run_windows(const Case& c, const std::function<void(Communicator&, Rank&)>& test) {
  const HostLayout layout(c.hosts);
  std::vector<std::shared_ptr<std::byte>> heads;
  for (int host = 0; host < layout.hosts; ++host) heads.push_back(make_window_head(layout.ranks_on(host)));
  run_ranks(static_cast<int>(c.hosts.size()), [&](Communicator& comm) {
    Rank rank(comm, c, heads);
    test(comm, rank);
    comm.barrier();
  });
}

class Windows : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(, Windows,
                         testing::Values(Case{{0}}, Case{{0, 0}}, Case{{0, 0, 0}, DType::bf16}, Case{{0, 0, 0, 0}},
                                         Case{{0, 0, 0, 0, 0}}, Case{{0, 1}}, Case{{0, 1, 0, 1}, DType::bf16},
                                         Case{{0, 0, 1, 0, 1}}, Case{{0, 1, 2, 2, 1}}));

// Sizes of nothing, of less than a rank each, of a small all-reduce, of more than a block, and of more than a round
// through staging memory.
TEST_P(Windows, RunEveryKindInEveryMemory) {
  const auto& [hosts, dtype] = GetParam();
  const auto ranks = std::ssize(hosts);
  run_windows(GetParam(), [&](Communicator& comm, Rank& rank) {
    for (Memory* const memory : {&Numbers::heap(), static_cast<Memory*>(&rank.window())})
      for (const int64_t count : {0, 1, 3, 1 + static_cast<int>(kSmall), 5001, 70'001}) {
        Numbers sums(dtype, count, *memory);
        for (int64_t i = 0; i < count; ++i) sums.set(i, value(comm.rank(), i));
        rank.run(Kind::all_reduce, sums.span());
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(sums.at(i), sum_of_values(comm.size(), i)) << i << " of " << count;

        const int64_t part = count / 2, mine = comm.rank() * part;
        Numbers parts(dtype, part * ranks, *memory);
        for (int64_t i = 0; i < part * ranks; ++i) parts.set(i, value(comm.rank(), i));
        rank.run(Kind::reduce_scatter, parts.span());
        for (int64_t i = mine; i < mine + part; ++i) ASSERT_EQ(parts.at(i), sum_of_values(comm.size(), i)) << i;
        rank.run(Kind::all_gather, parts.span());
        for (int64_t i = 0; i < part * ranks; ++i) ASSERT_EQ(parts.at(i), sum_of_values(comm.size(), i)) << i;
      }
  });
}

// A communicator of which expect_int8_sums() uses the sums alone.
class WindowSums final : public ForwardingCommunicator {
 public:
  WindowSums(Communicator& comm, Rank& rank, int hosts) : ForwardingCommunicator(comm), rank_(rank), hosts_(hosts) {}
  Sequence all_reduce(DeviceSpan span) override { return run(Kind::all_reduce, span); }
  Sequence reduce_scatter(DeviceSpan span) override { return run(Kind::reduce_scatter, span); }
  void wait(Sequence) override {}
  HostPlace place() const override { return {0, hosts_}; }

 private:
  Sequence run(Kind kind, DeviceSpan span) {
    rank_.run(kind, span);
    return 0;
  }
  Rank& rank_;
  const int hosts_;
};

TEST_P(Windows, SumInInt8BetweenHosts) {
  if (GetParam().dtype != DType::f32) return;
  run_windows(GetParam(), [&](Communicator& comm, Rank& rank) {
    WindowSums sums(comm, rank, HostLayout(GetParam().hosts).hosts);
    for (Memory* const memory : {&Numbers::heap(), static_cast<Memory*>(&rank.window())}) {
      expect_int8_all_reduces(sums, *memory);
      expect_int8_reduce_scatters(sums, *memory);
    }
  });
}

TEST(Window, TwoCollectivesAreUnderWay) {
  run_windows({{0, 0, 0}}, [](Communicator& comm, Rank& rank) {
    Numbers first(DType::f32, 20'000, rank.window()), second(DType::f32, 100, rank.window());
    for (int round = 0; round < 50; ++round) {
      for (int64_t i = 0; i < 20'000; ++i) first.set(i, value(comm.rank() + round, i));
      for (int64_t i = 0; i < 100; ++i) second.set(i, value(comm.rank(), i + round));
      rank.slot(0).start({Kind::all_reduce, first.span()});
      rank.slot(1).start({Kind::all_reduce, second.span()});
      for (bool a = false, b = false; !a || !b; std::this_thread::yield()) {
        b = b || rank.slot(1).advance();
        a = a || rank.slot(0).advance();
      }
      for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(second.at(i), sum_of_values(3, i + round));
      ASSERT_EQ(first.at(19'999), value(round, 19'999) + value(1 + round, 19'999) + value(2 + round, 19'999));
    }
  });
}

TEST(Window, DifferentCollectivesAreAnError) {
  run_windows({{0, 0}}, [](Communicator& comm, Rank& rank) {
    const Numbers numbers(DType::f32, comm.rank() == 0 ? 10 : 11);
    EXPECT_THROW(rank.run(Kind::all_reduce, numbers.span()), Error);
  });
}

TEST(Window, KnowsThePlacesOfItsMemory) {
  Window window(kBlocks);
  Numbers first(DType::f32, 1000, window), second(DType::f32, 10, window);
  const auto* const data = static_cast<const float*>(first.span().data);
  const int64_t place = window.place_of(data, 4000);
  EXPECT_EQ(Window::offset_of(place), 0);
  EXPECT_EQ(window.place_of(data + 3, 4), place + 12);
  EXPECT_EQ(window.at(place + 12, 0), reinterpret_cast<const std::byte*>(data + 3));
  EXPECT_NE(window.place_of(second.span().data, 40), place);
  EXPECT_EQ(window.place_of(data + 1, 4000), Window::kOutside);
  int64_t elsewhere = 0;
  EXPECT_EQ(window.place_of(&elsewhere, sizeof elsewhere), Window::kOutside);
  EXPECT_EQ(Window::offset_of(Window::kOutside), 0);
}

TEST(Window, RanksMayAllocateDifferentSizes) {
  run_windows({{0, 0}}, [](Communicator& comm, Rank& rank) {
    const Buffer buffer(rank.window(), comm.rank() == 0 ? 40'000 : 90'000);
    EXPECT_FALSE(rank.window().refused());
    EXPECT_TRUE(rank.window().is_shared(rank.window().place_of(buffer.data(), 40'000)));
    const DeviceSpan span{buffer.data(), 10'000, DType::f32};
    buffer.as<float>()[9'999] = static_cast<float>(1 + comm.rank());
    rank.run(Kind::all_reduce, span);
    EXPECT_EQ(buffer.as<float>()[9'999], 3);
  });
}

// What is not shared has a place all the same: the place orders the terms.
TEST(Window, ARefusedAllocationHasAPlace) {
  Window window(make_window_head(2), 0, 2, kBlocks, [](bool) { return false; });
  const Numbers numbers(DType::f32, 1000, window);
  const int64_t place = window.place_of(numbers.span().data, 4000);
  EXPECT_NE(place, Window::kOutside);
  EXPECT_FALSE(window.is_shared(place));
  EXPECT_TRUE(window.refused());
}

// A process that dies while others work on its memory leaves them their maps, and leaves no file.
TEST(Window, AKilledRankLeavesNothing) {
  const SharedMemory head("head of the test", Window::head_bytes(2)), meeting("meeting of the test", 64);
  auto* const arrived = reinterpret_cast<std::atomic<int>*>(meeting.data());
  const auto run = [&](int number) {
    int meetings = 0;
    const auto window = std::make_shared<Window>(std::shared_ptr<std::byte>(head.data(), [](std::byte*) {}), number, 2,
                                                 kBlocks, [&](bool mine) {
                                                   ++*arrived;
                                                   for (++meetings; *arrived < 2 * meetings;) std::this_thread::yield();
                                                   return mine;
                                                 });
    WindowCollective collective({.layout = HostLayout({0, 0}), .rule = kBlocks, .rank = number}, window, 0, nullptr);
    const Numbers numbers(DType::f32, 100'000, *window);
    collective.start({Kind::all_reduce, numbers.span()});
    if (number == 1) kill(getpid(), SIGKILL);  // its post is made; its blocks are never summed
    for (int i = 0; i < 1000; ++i) EXPECT_FALSE(collective.advance());
    EXPECT_EQ(numbers.at(99'999), 0);
    std::ifstream maps("/proc/self/maps");
    return std::string(std::istreambuf_iterator<char>(maps), {});
  };
  const pid_t child = fork();
  if (child == 0) {
    run(1);
    _exit(1);
  }
  int status = 0;
  const std::string during = run(0);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_NE(during.find("ddp_train gradients"), std::string::npos);
  std::ifstream maps("/proc/self/maps");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(maps), {}).find("ddp_train gradients"), std::string::npos);
}

// More allocations than the table has lie outside of the window on every rank.
TEST(Window, ManyAllocationsLieOutside) {
  run_windows({{0, 0}}, [](Communicator& comm, Rank& rank) {
    std::vector<Numbers> many;
    for (int i = 0; i < 40; ++i) many.emplace_back(DType::f32, 2000, rank.window());
    EXPECT_EQ(rank.window().place_of(many.back().span().data, 8000), Window::kOutside);
    for (const Numbers& numbers : many) {
      static_cast<float*>(numbers.span().data)[1999] = static_cast<float>(1 + comm.rank());
      rank.run(Kind::all_reduce, numbers.span());
      ASSERT_EQ(numbers.at(1999), 3);
    }
    EXPECT_TRUE(rank.window().refused());
  });
}

}  // namespace
}  // namespace ddp
