#include "comm/mpi/host_window.h"

#include "comm/mpi/check.h"
#include "comm/mpi/lane_link.h"
#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace ddp {
namespace {

constexpr const char* kHeadName = "ddp_train collectives";

// What `auto` chooses, from figures of tests/bench/allreduce. It depends on nothing but the hosts, so two runs on equal
// hosts choose the same.
struct Choice {
  int hosts;            // at most
  int64_t block_bytes;  // on one host, small blocks share out a small bucket; a message between hosts is one block
  int64_t small_bytes;
};
constexpr Choice kChoices[] = {
    {.hosts = 1, .block_bytes = 4 << 10, .small_bytes = 1 << 10},
    {.hosts = 2, .block_bytes = 60 << 10, .small_bytes = 60 << 10},
    {.hosts = 1 << 30, .block_bytes = 60 << 10, .small_bytes = 32 << 10},
};

bool all_of(MPI_Comm comm, bool mine) {
  int all = mine ? 1 : 0;
  MPI_Request request;
  DDP_MPI(MPI_Iallreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, comm, &request));
  complete(request);
  return all != 0;
}

// The head of the window of this rank's host; no memory if this rank cannot map it. Collective.
SharedMemory share_head(MPI_Comm comm, const HostLayout& layout, int rank) {
  const size_t bytes = Window::head_bytes(layout.ranks_on(layout.host[rank]));
  SharedMemory memory;
  if (layout.local[rank] == 0) memory = SharedMemory(kHeadName, bytes);
  const SharedMemory::Key mine = memory.key();
  std::vector<SharedMemory::Key> keys(layout.host.size());
  DDP_MPI(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, keys.data(), sizeof mine, MPI_BYTE, comm));
  const auto first = std::ranges::find(layout.host, layout.host[rank]) - layout.host.begin();
  return first == rank ? std::move(memory) : SharedMemory(kHeadName, keys[first], bytes);
}

std::string text_of(const HostLayout& layout) {
  if (layout.hosts == 1) return "shared memory";
  int most = layout.lanes;
  for (int host = 0; host < layout.hosts; ++host) most = std::max(most, layout.ranks_on(host));
  return fmt::format("shared memory on {} hosts ({} ranks), {} ring{} between them", layout.hosts,
                     most == layout.lanes ? fmt::format("{}", most) : fmt::format("{} to {}", layout.lanes, most),
                     layout.lanes, layout.lanes == 1 ? "" : "s");
}

Choice choice_for(int hosts) {
  return *std::ranges::find_if(kChoices, [hosts](const Choice& choice) { return hosts <= choice.hosts; });
}

}  // namespace

HostWindow::HostWindow(MPI_Comm comm, Allreduce allreduce, int host) : allreduce_(allreduce) {
  int size = 0;
  DDP_MPI(MPI_Comm_rank(comm, &config.rank));
  DDP_MPI(MPI_Comm_size(comm, &size));
  std::vector<int> alone(size);
  std::iota(alone.begin(), alone.end(), 0);
  config.layout = HostLayout(alone);

  const bool shares = size > 1 && allreduce != Allreduce::ring && allreduce != Allreduce::mpi;
  SharedMemory head;
  if (shares) {
    std::vector<int> hosts(size);
    DDP_MPI(MPI_Allgather(&host, 1, MPI_INT, hosts.data(), 1, MPI_INT, comm));
    const HostLayout layout(hosts);
    if (layout.hosts < size) {
      head = share_head(comm, layout, config.rank);
      if (all_of(comm, static_cast<bool>(head)))
        config.layout = layout;
      else
        cannot_map_ = true;
      head.hide();
    }
  }

  const HostLayout& layout = config.layout;
  const Choice choice = choice_for(layout.hosts);
  config.rule = {.bytes = choice.block_bytes, .lanes = layout.lanes, .hosts = layout.hosts};
  config.small_bytes = choice.small_bytes;
  const int local = layout.local[config.rank];
  if (layout.hosts < size) {
    auto owner = std::make_shared<SharedMemory>(std::move(head));
    window = std::make_shared<Window>(std::shared_ptr<std::byte>(owner, owner->data()), local,
                                      layout.ranks_on(layout.host[config.rank]), config.rule,
                                      [comm](bool mine) { return all_of(comm, mine); });
  } else {
    window = std::make_shared<Window>(config.rule);
  }
  if (layout.hosts > 1)
    DDP_MPI(MPI_Comm_split(comm, local < layout.lanes ? local : MPI_UNDEFINED, layout.host[config.rank], &lane));
}

std::string HostWindow::description() const {
  const HostLayout& layout = config.layout;
  const auto ranks = std::ssize(layout.host);
  if (ranks == 1) return "";
  if (allreduce_ == Allreduce::mpi) return "MPI";
  if (cannot_map_) return "ring, as a rank cannot map the memory of another rank of its host";
  if (layout.hosts == ranks) return "ring";
  return text_of(layout) +
         (window->refused() ? ", through copies, as a rank cannot share its gradients (ulimit -f, ulimit -v)" : "");
}

std::string HostWindow::order_of_terms() const {
  if (config.layout.host.size() == 1) return "";
  if (allreduce_ == Allreduce::mpi) return "MPI";
  return fmt::format("blocks of {} bytes, hosts {}", config.rule.bytes, fmt::join(config.layout.host, " "));
}

std::unique_ptr<WindowCollective> HostWindow::collective(int slot) const {
  return std::make_unique<WindowCollective>(config, window, slot,
                                            lane == MPI_COMM_NULL ? nullptr : make_lane_link(lane, config.rule, slot));
}

}  // namespace ddp
