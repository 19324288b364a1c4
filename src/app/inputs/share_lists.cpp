#include "app/inputs/share_lists.h"

#include "comm/shared_block.h"
#include "core/error.h"
#include "core/printable.h"
#include "data/csv.h"
#include "data/folder.h"
#include "data/val_split.h"
#include "health/run_on_all_ranks.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <sstream>
#include <vector>

namespace ddp {
namespace {

using nlohmann::json;

PictureLists list_pictures(const DataConfig& config, const std::string& kind, uint64_t seed, const Reading& reading) {
  reading.progress();
  const int least_classes = config.evaluated ? 1 : 2;  // a network may be evaluated on one of its classes
  PictureLists lists = kind == "csv" ? list_csv(config.labels, config.path, reading.progress, least_classes)
                                     : list_folder(config.path, reading.progress, least_classes);
  require(!config.evaluated || lists.val_part.empty() || lists.val.size() > 0, Exit::data,
          "{}: the folder {} holds no pictures; put the pictures to evaluate there, or remove it to evaluate those of "
          "train",
          printable(config.path), lists.val_part);
  if (config.val_split > 0) {
    require(lists.val.size() == 0, Exit::usage, "--val-split {}: the data have {} validation pictures of their own",
            config.val_split, lists.val.size());
    split_validation(lists, config.val_split, seed);
  }
  reading.done();
  return lists;
}

// The rank of this host that lists the data: its first.
int leader_of(const MpiSession& session, const HeartbeatTable& heartbeats) {
  const std::string& host = heartbeats.host_of(session.rank());
  int leader = 0;
  while (heartbeats.host_of(leader) != host) ++leader;
  return leader;
}

// What a leader tells the ranks of its host.
std::string told_by(const SharedBlock& block, const PictureLists& lists) {
  return json{{"block", block.key()}, {"notes", lists.notes}, {"meant", lists.meant}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

// Returns nothing if this process cannot map the leader's memory.
std::optional<PictureLists> map_lists(const std::string& text) {
  const json told = json::parse(text);
  const SharedBlock::Mapped mapped = SharedBlock::map(told.at("block"));
  if (!mapped.bytes) return std::nullopt;
  PictureLists lists = PictureLists::from_block(mapped.bytes, mapped.size);
  lists.notes = told.at("notes").get<std::vector<std::string>>();
  lists.meant = told.at("meant");
  return lists;
}

void require_same_on_all_hosts(const PictureLists& lists, const std::string& path, MpiSession& session) {
  std::vector<ListedHost> hosts;
  const auto texts = session.gather(
      fmt::format("{} {} {}", lists.train.size(), lists.val.size(), lists.train.hash() ^ lists.val.hash() << 1));
  for (int rank = 0; rank < session.size(); ++rank) {
    std::istringstream text(texts[rank]);
    ListedHost& host = hosts.emplace_back(ListedHost{.host = session.heartbeats().host_of(rank)});
    text >> host.train >> host.val >> host.hash;
  }
  const std::string different = difference_of_hosts(hosts);
  if (!different.empty())
    throw CollectiveError(Exit::data, fmt::format("{}: not all hosts see the same files:{}\ncopy the data again, or "
                                                  "give all hosts one folder",
                                                  printable(path), different));
}

}  // namespace

PictureLists share_lists(const DataConfig& config, const std::string& kind, uint64_t seed, MpiSession& session,
                         const Reading& reading) {
  const int leader = leader_of(session, session.heartbeats());
  const bool leads = session.rank() == leader;
  PictureLists lists;
  std::optional<SharedBlock> shared;
  run_on_all_ranks(session, [&] {
    if (!leads) return;
    lists = list_pictures(config, kind, seed, reading);
    shared.emplace(lists.block());
  });
  const auto told = session.gather(shared ? told_by(*shared, lists) : "");
  run_on_all_ranks(session, [&] {
    if (leads) return;
    const auto mapped = map_lists(told[leader]);
    lists = mapped ? *mapped : list_pictures(config, kind, seed, reading);
  });
  require_same_on_all_hosts(lists, config.path, session);
  return lists;
}

}  // namespace ddp
