#include "ddp/exchange_simulation.h"

#include "core/error.h"

#include <algorithm>
#include <array>
#include <queue>
#include <tuple>

namespace ddp {
namespace {

enum class EventKind : uint8_t { joins, up, down };

struct ExchangeEvent {
  double ms = 0;
  int32_t host = 0, from = 0;
  EventKind kind = EventKind::joins;
  uint8_t tree = 0;
  bool operator>(const ExchangeEvent& other) const {
    return std::tie(ms, host, from, kind, tree) > std::tie(other.ms, other.host, other.from, other.kind, other.tree);
  }
};

// The events in the order of their times, and the links.
class EventQueue {
 public:
  EventQueue(const Link& link, const std::vector<double>& begin_ms, LinkEnds& ends) : link_(link), ends_(ends) {
    for (size_t host = 0; host < begin_ms.size(); ++host)
      events_.push({.ms = begin_ms[host], .host = static_cast<int32_t>(host)});
  }

  // A message leaves when the sender's link is free, and arrives when the receiver's is.
  void send(double bytes, ExchangeEvent arrival) {
    const double ms = bytes * link_.ms_per_byte;
    double &out = ends_.out_free[arrival.from], &in = ends_.in_free[arrival.host];
    out = std::max(out, now_) + ms;
    in = std::max(out + link_.latency_ms, in + ms);
    arrival.ms = in;
    events_.push(arrival);
  }

  bool empty() const { return events_.empty(); }
  ExchangeEvent take() {
    const ExchangeEvent event = events_.top();
    events_.pop();
    now_ = event.ms;
    return event;
  }

 private:
  const Link link_;
  LinkEnds& ends_;
  std::priority_queue<ExchangeEvent, std::vector<ExchangeEvent>, std::greater<>> events_;
  double now_ = 0;
};

struct RingHost {
  bool joined = false;
  int64_t received = 0, sent = 0;
};

struct TreeNode {
  int32_t parent = -1;
  std::array<int32_t, 2> children{-1, -1};
  std::array<int64_t, 2> from_child{};  // pieces
  int64_t from_parent = 0, up = 0, down = 0;
};

// Host h is as deep as its lowest bit is high; host 0 is the root. So is the tree that NCCL uses.
TreeNode node_of(int32_t host, int32_t hosts) {
  TreeNode node;
  int32_t low = 1;
  if (host == 0) {
    while (low < hosts) low *= 2;
    node.children[0] = hosts > 1 ? low / 2 : -1;
    return node;
  }
  while ((host & low) == 0) low *= 2;
  node.parent = (host ^ low) | (low * 2);
  if (node.parent >= hosts) node.parent = host ^ low;
  if (low == 1) return node;
  node.children[0] = host - low / 2;
  for (int32_t step = low / 2; step > 0 && node.children[1] < 0; step /= 2)
    if (host + step < hosts) node.children[1] = host + step;
  return node;
}

class DoubleTree {
 public:
  DoubleTree(int32_t hosts, double bytes) : pieces_(pieces_of(bytes / 2)), joined_(hosts), done_(hosts) {
    piece_bytes_ = bytes / 2 / static_cast<double>(pieces_);
    for (std::vector<TreeNode>& tree : trees_) {
      const bool second = &tree != trees_.data();
      tree.resize(static_cast<size_t>(hosts));
      // A bijection between hosts and places in the tree.
      const auto host_at = [&](int32_t place) {
        if (!second || place < 0) return place;
        return hosts % 2 == 0 ? hosts - 1 - place : (place + 1) % hosts;
      };
      for (int32_t place = 0; place < hosts; ++place) {
        TreeNode node = node_of(place, hosts);
        node.parent = host_at(node.parent);
        for (int32_t& child : node.children) child = host_at(child);
        tree[static_cast<size_t>(host_at(place))] = node;
      }
    }
  }

  std::vector<double> run(EventQueue& events) {
    while (!events.empty()) {
      const ExchangeEvent event = events.take();
      if (event.kind == EventKind::joins) {
        joined_[event.host] = true;
        for (uint8_t tree = 0; tree < 2; ++tree) advance(event.host, tree, events);
      } else {
        TreeNode& node = trees_[event.tree][event.host];
        ++(event.kind == EventKind::down ? node.from_parent : node.from_child[event.from == node.children[1]]);
        advance(event.host, event.tree, events);
      }
      if (has_all(event.host, 0) && has_all(event.host, 1)) done_[event.host] = std::max(done_[event.host], event.ms);
    }
    return std::move(done_);
  }

 private:
  bool has_all(int32_t host, uint8_t tree) const { return joined_[host] && available(trees_[tree][host]) == pieces_; }
  static int64_t available(const TreeNode& node) { return node.parent < 0 ? node.up : node.from_parent; }

  void advance(int32_t host, uint8_t tree, EventQueue& events) {
    TreeNode& node = trees_[tree][host];
    const auto has_from_children = [&] {
      for (size_t c = 0; c < 2; ++c)
        if (node.children[c] >= 0 && node.from_child[c] <= node.up) return false;
      return true;
    };
    for (; joined_[host] && node.up < pieces_ && has_from_children(); ++node.up)
      if (node.parent >= 0)
        events.send(piece_bytes_, {.host = node.parent, .from = host, .kind = EventKind::up, .tree = tree});
    for (; node.down < available(node); ++node.down)
      for (const int32_t child : node.children)
        if (child >= 0) events.send(piece_bytes_, {.host = child, .from = host, .kind = EventKind::down, .tree = tree});
  }

  const int64_t pieces_;
  double piece_bytes_ = 0;
  std::array<std::vector<TreeNode>, 2> trees_;
  std::vector<char> joined_;
  std::vector<double> done_;
};

int64_t pieces_of_chunk(int64_t hosts, double bytes, bool in_pieces) {
  return in_pieces ? pieces_of(bytes / static_cast<double>(hosts)) : 1;
}

}  // namespace

std::vector<double> simulate_ring(const Link& link, const std::vector<double>& begin_ms, int64_t steps, double bytes,
                                  bool in_pieces, LinkEnds& ends) {
  const auto hosts = static_cast<int32_t>(begin_ms.size());
  DDP_EXPECT(hosts > 1 && steps > 0);
  const int64_t pieces = pieces_of_chunk(hosts, bytes, in_pieces), all = steps * pieces;
  const double piece_bytes = bytes / static_cast<double>(hosts) / static_cast<double>(pieces);
  EventQueue events(link, begin_ms, ends);
  std::vector<RingHost> state(begin_ms.size());
  std::vector<double> done = begin_ms;
  while (!events.empty()) {
    const ExchangeEvent event = events.take();
    RingHost& host = state[event.host];
    if (event.kind == EventKind::joins)
      host.joined = true;
    else
      ++host.received;
    for (; host.joined && host.sent < std::min(all, host.received + pieces); ++host.sent)
      events.send(piece_bytes, {.host = (event.host + 1) % hosts, .from = event.host, .kind = EventKind::up});
    done[event.host] = std::max(done[event.host], event.ms);
  }
  return done;
}

std::vector<double> simulate_tree(const Link& link, const std::vector<double>& begin_ms, double bytes, LinkEnds& ends) {
  const auto hosts = static_cast<int32_t>(begin_ms.size());
  DDP_EXPECT(hosts > 1);
  EventQueue events(link, begin_ms, ends);
  return DoubleTree(hosts, bytes).run(events);
}

int64_t messages_of_ring(int64_t hosts, int64_t steps, double bytes, bool in_pieces) {
  return hosts > 1 ? hosts * steps * pieces_of_chunk(hosts, bytes, in_pieces) : 0;
}

int64_t messages_of_tree(int64_t hosts, double bytes) { return 4 * (hosts - 1) * pieces_of(bytes / 2); }

}  // namespace ddp
