#include "app/machine/autotune_cache.h"

#include "tests/comm/ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ddp {
namespace {

TEST(AutotuneCache, ReproducesEarlierChoices) {
  std::string made;
  const auto agree = [&](const std::string& earlier, int64_t ours) {
    std::vector<int64_t> agreed;
    run_ranks(2, [&](Communicator& comm) {
      AutotuneCache autotune(earlier);
      std::array<int64_t, 2> first{ours + comm.rank(), -1};
      std::array<int64_t, 1> second{10 * ours + comm.rank()};
      autotune.agree(comm, first);
      autotune.agree(comm, second);
      if (comm.rank() != 1) return;
      agreed = {first[0], first[1], second[0]};
      made = autotune.text();
    });
    return agreed;
  };
  EXPECT_EQ(agree("", 5), (std::vector<int64_t>{5, -1, 50}));
  const std::string earlier = made;
  EXPECT_EQ(agree(earlier, 6), (std::vector<int64_t>{5, -1, 50}));
  EXPECT_EQ(made, earlier);
  EXPECT_EQ(agree("5 -1", 6), (std::vector<int64_t>{5, -1, 60}));
}

// A model that is planned again takes its own choices, and the text has them once.
TEST(AutotuneCache, RepeatsItsChoices) {
  run_ranks(2, [&](Communicator& comm) {
    AutotuneCache autotune;
    for (const int64_t measured : {5, 6, 7}) {
      std::array<int64_t, 2> choice{measured, 8};
      autotune.agree(comm, choice);
      EXPECT_EQ(choice[0], 5);
      EXPECT_EQ(autotune.text(), "5 8");
      autotune.repeat();
    }
  });
}

}  // namespace
}  // namespace ddp
