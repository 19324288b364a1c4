// The doctor's findings about NCCL's variables.
#include "tests/app/commands/doctor/fakes.h"

namespace ddp::doctor {
namespace {

TEST(DoctorNcclVariables, AreListed) {
  const Findings found =
      check_nccl_variables(with_variable(with_gpus(1, 2), "NCCL_CROSS_NIC", "1"), {}, {}, true, "mpirun");
  expect_fine(found);
  EXPECT_EQ(found[0].found, "NCCL_CROSS_NIC=1");
  EXPECT_EQ(check_nccl_variables(with_gpus(1, 2), {}, {}, true, "mpirun")[0].found, "none set");
}

TEST(DoctorNcclVariables, HarmfulValuesAreExplained) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"NCCL_P2P_DISABLE", "1"},
                                                                                    {"NCCL_SHM_DISABLE", "1"},
                                                                                    {"NCCL_NVLS_ENABLE", "0"},
                                                                                    {"NCCL_ALGO", "Tree"},
                                                                                    {"NCCL_PROTO", "LL"},
                                                                                    {"NCCL_MAX_CTAS", "2"},
                                                                                    {"NCCL_MAX_NCHANNELS", "1"},
                                                                                    {"NCCL_DEBUG", "TRACE"}}) {
    const auto ranks = with_variable(with_gpus(1, 2), name, value);
    expect_only(check_nccl_variables(ranks, {}, {}, true, "mpirun"), Verdict::warning, {name + "=" + value + ": "},
                "unset " + name);
    expect_fine(check_nccl_variables(ranks, {}, {}, false, "mpirun"));
    expect_fine(check_nccl_variables(ranks, {}, {.kind = TransportKind::mpi}, true, "mpirun"));
  }
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"NCCL_P2P_DISABLE", "0"}, {"NCCL_MAX_CTAS", "16"}, {"NCCL_DEBUG", "WARN"}, {"NCCL_SOCKET_IFNAME", "lo"}})
    expect_fine(check_nccl_variables(with_variable(with_gpus(1, 2), name, value), {}, {}, true, "mpirun"));
}

TEST(DoctorNcclVariables, RequestedValuesAreOk) {
  expect_fine(check_nccl_variables(with_variable(with_gpus(1, 2), "NCCL_ALGO", "Ring"), {}, {.nccl_ring = true}, true,
                                   "mpirun"));
  expect_fine(check_nccl_variables(with_variable(with_gpus(1, 2), "NCCL_P2P_DISABLE", "1"), {.share_gpu = true}, {},
                                   true, "mpirun"));
}

TEST(DoctorNcclVariables, WarnsOfValuesThatHurtBetweenHosts) {
  auto ranks = with_variable(with_gpus(2, 1), "NCCL_IB_DISABLE", "1");
  expect_fine(check_nccl_variables(ranks, {}, {}, true, "mpirun"));
  ranks[1].here.rdma = true;
  expect_only(check_nccl_variables(ranks, {}, {}, true, "mpirun"), Verdict::warning, {"RDMA"}, "unset NCCL_IB_DISABLE");
  expect_only(check_nccl_variables(with_variable(with_gpus(2, 1), "NCCL_SOCKET_IFNAME", "lo"), {}, {}, true, "mpirun"),
              Verdict::warning, {"other hosts"}, "unset NCCL_SOCKET_IFNAME");
}

TEST(DoctorNcclVariables, MustBeEqualOnAllRanks) {
  auto ranks = with_gpus(1, 2);
  ranks[1].environment["NCCL_CROSS_NIC"] = "1";
  expect_only(check_nccl_variables(ranks, {}, {}, true, "mpirun"), Verdict::warning, {"NCCL_CROSS_NIC is not the same"},
              "mpirun -x NCCL_CROSS_NIC=1");
  EXPECT_EQ(check_nccl_variables(ranks, {}, {}, true, "srun")[0].fix, "export NCCL_CROSS_NIC=1");
}

}  // namespace
}  // namespace ddp::doctor
