#include "comm/nccl/environment.h"

#include "core/error.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

TEST(NcclEnvironment, SetsNothingByDefault) {
  EXPECT_TRUE(nccl_variables_to_set({}, 0, {{"NCCL_ALGO", "Tree"}}).empty());
}

TEST(NcclEnvironment, SetsRingVariables) {
  EXPECT_EQ(nccl_variables_to_set({.ring = true}, 3, {}), (NcclVariables{{"NCCL_ALGO", "Ring"}}));
  EXPECT_TRUE(nccl_variables_to_set({.ring = true}, 3, {{"NCCL_ALGO", "ring"}}).empty());
}

TEST(NcclEnvironment, SetsDeterministicVariables) {
  EXPECT_EQ(nccl_variables_to_set({.ring = true, .deterministic = true}, 0, {{"NCCL_PROTO", "Simple"}}),
            (NcclVariables{{"NCCL_ALGO", "Ring"}, {"NCCL_NVLS_ENABLE", "0"}}));
}

TEST(NcclEnvironment, OrdersTheKernelsOfSeveralCommunicators) {
  EXPECT_EQ(nccl_variables_to_set({.split = true}, 0, {}), (NcclVariables{{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"}}));
  EXPECT_TRUE(nccl_variables_to_set({.split = true}, 0, {{"NCCL_LAUNCH_ORDER_IMPLICIT", "0"}}).empty());
}

TEST(NcclEnvironment, ContradictionNamesBothSettings) {
  const auto text = [](const NcclConfig& config, const NcclVariables& present) -> std::string {
    try {
      nccl_variables_to_set(config, 0, present);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::usage);
      return error.what();
    }
    return "";
  };
  const std::string ring = text({.ring = true}, {{"NCCL_ALGO", "Tree"}});
  EXPECT_NE(ring.find("NCCL_ALGO=Tree"), ring.npos) << ring;
  EXPECT_NE(ring.find("NCCL_ALGO=Ring"), ring.npos) << ring;
  EXPECT_NE(text({.ring = true}, {{"NCCL_ALGO", "Ring,Tree"}}), "");
  EXPECT_NE(text({.deterministic = true}, {{"NCCL_PROTO", "LL"}}), "");
  EXPECT_NE(text({.deterministic = true}, {{"NCCL_NVLS_ENABLE", "1"}}), "");
}

TEST(NcclEnvironment, SharedGpuSetsAHostIdPerRankAndKeepsUserValues) {
  const NcclVariables first = nccl_variables_to_set({.share_gpu = true}, 0, {{"NCCL_ALGO", "Tree"}});
  const NcclVariables second = nccl_variables_to_set({.share_gpu = true}, 1, {});
  EXPECT_EQ(first.at("NCCL_SOCKET_IFNAME"), "lo");
  EXPECT_EQ(first.at("NCCL_MAX_CTAS"), "2");
  EXPECT_EQ(first.at("NCCL_CUMEM_HOST_ENABLE"), "0");
  EXPECT_FALSE(first.contains("NCCL_ALGO"));
  EXPECT_EQ(second.at("NCCL_ALGO"), "Ring");
  EXPECT_NE(first.at("NCCL_HOSTID"), second.at("NCCL_HOSTID"));
}

TEST(NcclEnvironment, ReadsAndDescribesTheProcessVariables) {
  setenv("NCCL_TEST_A", "x=y", 1);
  setenv("NOT_NCCL_TEST", "1", 1);
  const NcclVariables present = nccl_variables_of_process();
  EXPECT_EQ(present.at("NCCL_TEST_A"), "x=y");
  EXPECT_FALSE(present.contains("NOT_NCCL_TEST"));
  EXPECT_EQ(describe_nccl(22809, {{"NCCL_ALGO", "Ring"}}), "NCCL 2.28.9, NCCL_ALGO=Ring");
  EXPECT_EQ(describe_nccl().substr(0, 11), "NCCL 2.28.9");
  unsetenv("NCCL_TEST_A");
  unsetenv("NOT_NCCL_TEST");
}

}  // namespace
}  // namespace ddp
