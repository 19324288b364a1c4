#include "app/commands/doctor/checks.h"
#include "core/split.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <map>
#include <set>

namespace ddp::doctor {
namespace {

constexpr char kOob[] = "OMPI_MCA_oob_tcp_if_include", kExclude[] = "OMPI_MCA_btl_tcp_if_exclude",
               kNccl[] = "NCCL_SOCKET_IFNAME";

struct IpNetwork {
  uint32_t address = 0, mask = 0;
  bool holds(uint32_t other) const { return (other & mask) == (address & mask); }
};

std::optional<IpNetwork> network_of(const std::string& text) {  // "10.0.0.1/24"
  const size_t slash = text.find('/');
  in_addr address{};
  int bits = 32;
  if (slash == std::string::npos || inet_pton(AF_INET, text.substr(0, slash).c_str(), &address) != 1) return {};
  std::from_chars(text.data() + slash + 1, text.data() + text.size(), bits);
  return IpNetwork{ntohl(address.s_addr), bits <= 0 ? 0 : ~uint32_t{0} << (32 - std::min(bits, 32))};
}

std::string text_of(const IpNetwork& network) {  // "10.0.0.0/24"
  const in_addr address{htonl(network.address & network.mask)};
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address, text.data(), text.size());
  return fmt::format("{}/{}", text.data(), std::popcount(network.mask));
}

bool works(const Interface& interface) { return interface.up && !interface.addresses.empty(); }
bool is_loopback(const Interface& interface) { return interface.name == "lo"; }

std::string working(const HostFacts& here) {
  std::vector<std::string> names;
  for (const Interface& interface : here.interfaces)
    if (works(interface) && !is_loopback(interface)) names.push_back(interface.name);
  return fmt::format("{}", fmt::join(names, ","));
}

// With `prefix`, as for NCCL, an item means all names that begin with it; "=eth0" means exactly eth0.
bool matches(const Interface& interface, std::string item, bool prefix) {
  if (!prefix) return item.find('/') != std::string::npos ? names_usable(interface, item) : interface.name == item;
  return item.starts_with("=") ? interface.name == item.substr(1) : interface.name.starts_with(item);
}

// The problem of one item of a variable on one host; empty: none.
std::string problem_with(const std::string& item, const HostFacts& here, bool prefix) {
  const auto named = [&](const Interface& i) { return matches(i, item, prefix); };
  if (std::none_of(here.interfaces.begin(), here.interfaces.end(), named)) return "missing";
  const auto good = [&](const Interface& i) { return named(i) && works(i); };
  if (std::any_of(here.interfaces.begin(), here.interfaces.end(), good)) return "";
  const auto up = [&](const Interface& i) { return named(i) && i.up; };
  return std::any_of(here.interfaces.begin(), here.interfaces.end(), up) ? "without an address" : "down";
}

std::string fix_for(const char* variable, const std::string& item, const std::string& wrong, const HostFacts& here) {
  const std::string others = working(here);
  if (wrong == "down") return fmt::format("ip link set {} up", item.starts_with("=") ? item.substr(1) : item);
  if (others.empty()) return fmt::format("unset {}", variable);
  return fmt::format("export {}={}", variable, others);
}

// `matters`: whether the run uses the interfaces that `variable` names; only then is a problem a fault.
Findings check_named(Ranks ranks, const char* variable, bool matters) {
  Findings problems;
  std::set<std::string> reported;
  for (const HostRanks& of_host : by_host(ranks)) {
    const RankFacts& rank = ranks[of_host.ranks.front()];
    const std::string value = value_in(rank.environment, variable);
    if (value.starts_with("^")) continue;
    const auto items = items_of(value);
    const auto serves = [&](const std::string& item) {
      return problem_with(item, rank.here, variable == kNccl).empty();
    };
    const bool one_serves = std::any_of(items.begin(), items.end(), serves);  // one usable interface is enough
    for (const std::string& item : items) {
      const std::string wrong = problem_with(item, rank.here, variable == kNccl);
      if (wrong.empty() || (one_serves && wrong == "missing") || !reported.insert(item).second) continue;
      const std::string others = working(rank.here);
      const std::string problem =
          fmt::format("{}={}: {} is {} on {}, where {}", variable, value, item, wrong, of_host.host,
                      others.empty() ? "nothing but lo is up" : others + " is up");
      const std::string fix = fix_for(variable, item, wrong, rank.here);
      problems.push_back(matters && !one_serves ? fault(Exit::communication, problem, fix) : warn(problem, fix));
    }
  }
  return problems;
}

struct HostAddress {
  std::string host, interface;
  IpNetwork network;
};

std::vector<HostAddress> host_addresses(Ranks ranks, const std::vector<HostRanks>& hosts) {
  std::vector<HostAddress> all;
  for (const HostRanks& host : hosts)
    for (const Interface& interface : ranks[host.ranks.front()].here.interfaces)
      for (const std::string& address : interface.addresses)
        if (const auto network = network_of(address); network && works(interface) && !is_loopback(interface))
          all.push_back({host.host, interface.name, *network});
  return all;
}

// The addresses that two hosts have, such as that of a container's bridge. They do not connect hosts.
std::set<uint32_t> duplicate_addresses(const std::vector<HostAddress>& all) {
  std::map<uint32_t, std::string> owner;
  std::set<uint32_t> duplicates;
  for (const auto& [host, interface, network] : all)
    if (owner.try_emplace(network.address, host).first->second != host) duplicates.insert(network.address);
  return duplicates;
}

Findings check_several_hosts(Ranks ranks, const std::vector<HostRanks>& hosts) {
  const Environment& environment = ranks[0].environment;
  if (!value_in(environment, kTcpInclude).empty() || !value_in(environment, kExclude).empty()) return {};
  const std::vector<HostAddress> all = host_addresses(ranks, hosts);
  const std::set<uint32_t> duplicates = duplicate_addresses(all);
  std::set<std::string> bridges, networks;
  std::map<uint32_t, std::set<std::string>> hosts_of_network;
  for (const auto& [host, interface, network] : all) {
    if (duplicates.contains(network.address)) {
      bridges.insert(interface);
      continue;
    }
    networks.insert(text_of(network));
    hosts_of_network[network.address & network.mask].insert(host);
  }
  const auto joins_all = [&](const auto& network) { return network.second.size() == hosts.size(); };
  if (std::none_of(hosts_of_network.begin(), hosts_of_network.end(), joins_all)) {
    Finding apart = warn("no network is common to all hosts: they need a router to reach each other");
    if (networks.empty()) return {hint("ip addr", std::move(apart))};
    apart.fix = fmt::format("export {}={}", kTcpInclude, fmt::join(networks, ","));
    return {std::move(apart)};
  }
  Findings problems;
  for (const std::string& name : bridges)
    problems.push_back(warn(
        fmt::format("several hosts have the same address on {}: MPI may try to reach them through it, and hang", name),
        fmt::format("export {}=lo,{}", kExclude, fmt::join(bridges, ","))));
  return problems;
}

}  // namespace

std::vector<std::string> items_of(const std::string& text) {
  std::vector<std::string> items = split(text, ',');
  std::erase(items, "");
  return items;
}

bool names_usable(const Interface& interface, const std::string& item) {
  if (!works(interface)) return false;
  if (const auto wanted = network_of(item))
    return std::any_of(interface.addresses.begin(), interface.addresses.end(), [&](const std::string& address) {
      const auto network = network_of(address);
      return network && wanted->holds(network->address);
    });
  return interface.name == item;
}

Findings check_interfaces(Ranks ranks, bool on_gpus, bool with_networks) {
  const auto hosts = by_host(ranks);
  const bool several = hosts.size() > 1;
  Findings problems = check_named(ranks, kTcpInclude, several);
  for (const Findings& more : {check_named(ranks, kOob, several), check_named(ranks, kNccl, on_gpus),
                               several && with_networks ? check_several_hosts(ranks, hosts) : Findings{}})
    problems.insert(problems.end(), more.begin(), more.end());
  std::vector<std::string> seen;
  for (const HostRanks& host : hosts) {
    std::vector<std::string> up;
    for (const Interface& interface : ranks[host.ranks.front()].here.interfaces)
      if (works(interface) && !is_loopback(interface))
        up.push_back(fmt::format("{} {}", interface.name, interface.addresses.front()));
    seen.push_back(fmt::format("{} on {}", up.empty() ? "lo only" : fmt::format("{}", fmt::join(up, ", ")), host.host));
  }
  return with_found(std::move(problems), "interfaces", fmt::format("{}", fmt::join(seen, "; ")));
}

}  // namespace ddp::doctor
