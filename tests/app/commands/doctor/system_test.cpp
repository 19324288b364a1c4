#include "app/commands/doctor/system.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ddp::doctor {
namespace {

TEST(DoctorSystem, ThisHostHasALoopback) {
  const auto interfaces = network_interfaces();
  EXPECT_TRUE(std::any_of(interfaces.begin(), interfaces.end(), [](const auto& i) { return i.name == "lo"; }));
}

}  // namespace
}  // namespace ddp::doctor
