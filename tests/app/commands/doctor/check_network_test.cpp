// The doctor's findings about network interfaces.
#include "tests/app/commands/doctor/fakes.h"

namespace ddp::doctor {
namespace {

const std::string kTcp = "OMPI_MCA_btl_tcp_if_include", kNccl = "NCCL_SOCKET_IFNAME";

TEST(DoctorInterfaces, ShowsInterfacesThatAreUp) {
  const Findings found = check_interfaces(healthy(2, 2), false);
  expect_fine(found);
  EXPECT_EQ(found[0].found, "eth0 10.0.0.1/24 on a; eth0 10.0.0.2/24 on b");
  for (const char* good : {"eth0", "10.0.0.0/24", "eth0,10.0.0.0/8"})
    expect_fine(check_interfaces(with_variable(healthy(2, 2), kTcp, good), false));
}

TEST(DoctorInterfaces, ReportsANamedInterfaceThatIsDown) {
  const auto two_hosts = with_variable(healthy(2, 1), kTcp, "eth1");
  expect_only(check_interfaces(two_hosts, false), Verdict::fault, {kTcp + "=eth1", "eth1 is down on a", "eth0 is up"},
              "ip link set eth1 up", Exit::communication);
  const auto one_host = with_variable(healthy(1, 2), kTcp, "eth1");  // on one host MPI needs no interface
  expect_only(check_interfaces(one_host, false), Verdict::warning, {"eth1 is down on a"}, "ip link set eth1 up");
}

TEST(DoctorInterfaces, OneUsableInterfaceOfAListIsEnough) {
  expect_fine(check_interfaces(with_variable(healthy(2, 1), kTcp, "ib0,eth0"), false));
  expect_only(check_interfaces(with_variable(healthy(2, 1), kTcp, "eth0,eth1"), false), Verdict::warning,
              {"eth1 is down on a"}, "ip link set eth1 up");
}

TEST(DoctorInterfaces, ReportsANamedInterfaceThatIsMissingOrHasNoAddress) {
  expect_only(check_interfaces(with_variable(healthy(2, 1), kTcp, "ib0"), false), Verdict::fault,
              {"ib0 is missing on a"}, "export OMPI_MCA_btl_tcp_if_include=eth0", Exit::communication);
  expect_only(check_interfaces(with_variable(healthy(2, 1), "OMPI_MCA_oob_tcp_if_include", "10.1.0.0/16"), false),
              Verdict::fault, {"10.1.0.0/16 is missing on a"}, "export OMPI_MCA_oob_tcp_if_include=eth0",
              Exit::communication);
  auto ranks = with_variable(healthy(2, 1), kTcp, "eth1");
  for (RankFacts& rank : ranks) rank.here.interfaces[2].up = true;
  expect_only(check_interfaces(ranks, false), Verdict::fault, {"eth1 is without an address on a"},
              "export OMPI_MCA_btl_tcp_if_include=eth0", Exit::communication);
}

TEST(DoctorInterfaces, NcclMatchesInterfacesByPrefix) {
  for (const char* good : {"eth", "=eth0", "ib,eth0", "^ib", "^eth1"})
    expect_fine(check_interfaces(with_variable(with_gpus(1, 2), kNccl, good), true));
  expect_only(check_interfaces(with_variable(with_gpus(1, 2), kNccl, "ib"), true), Verdict::fault,
              {"ib is missing on a"}, "export NCCL_SOCKET_IFNAME=eth0", Exit::communication);
  expect_only(check_interfaces(with_variable(with_gpus(1, 2), kNccl, "=eth"), true), Verdict::fault,
              {"=eth is missing"}, "export NCCL_SOCKET_IFNAME=eth0", Exit::communication);
  expect_only(check_interfaces(with_variable(healthy(1, 2), kNccl, "eth1"), false), Verdict::warning, {"eth1 is down"},
              "ip link set eth1 up");
}

TEST(DoctorInterfaces, ReportsHostsWithoutACommonNetwork) {
  auto ranks = healthy(2, 1);
  ranks[1].here.interfaces[1].addresses = {"10.0.1.2/24"};
  expect_only(check_interfaces(ranks, false), Verdict::warning, {"no network is common"},
              "export OMPI_MCA_btl_tcp_if_include=10.0.0.0/24,10.0.1.0/24");
  expect_fine(check_interfaces(ranks, false, false));
  expect_fine(check_interfaces(with_variable(ranks, kTcp, "10.0.0.0/23"), false));
  for (RankFacts& rank : ranks) rank.here.interfaces.push_back({"docker0", true, {"172.17.0.1/16"}});  // not routed
  expect_only(check_interfaces(ranks, false), Verdict::warning, {"no network is common"},
              "export OMPI_MCA_btl_tcp_if_include=10.0.0.0/24,10.0.1.0/24");
  for (RankFacts& rank : ranks) rank.here.interfaces.resize(1);
  expect_only(check_interfaces(ranks, false), Verdict::warning, {"no network is common"},
              kHint + std::string("ip addr"));
}

TEST(DoctorInterfaces, ReportsABridgeAddressOnSeveralHosts) {
  auto ranks = healthy(2, 1);
  for (RankFacts& rank : ranks) rank.here.interfaces.push_back({"docker0", true, {"172.17.0.1/16"}});
  expect_only(check_interfaces(ranks, false), Verdict::warning, {"the same address on docker0"},
              "export OMPI_MCA_btl_tcp_if_exclude=lo,docker0");
  expect_fine(check_interfaces(with_variable(ranks, kTcp, "eth0"), false));
}

}  // namespace
}  // namespace ddp::doctor
