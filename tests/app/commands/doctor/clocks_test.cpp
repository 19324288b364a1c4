#include "app/commands/doctor/measure.h"
#include "comm/local/communicator.h"
#include "core/stopwatch.h"
#include "tests/app/commands/doctor/fakes.h"

#include <thread>
#include <vector>

namespace ddp::doctor {
namespace {

TEST(DoctorClocks, WarnsOfClockOffsets) {
  EXPECT_EQ(check_clocks({{0, 0}, {0.1, 0.1}}, {"a", "a"})[0].found, "one host");
  expect_fine(check_clocks({{0, 0}, {0.9, 0.001}}, {"a", "b"}));
  expect_fine(check_clocks({{0, 0}, {1.2, 0.5}}, {"a", "b"}));  // the true offset may be below 1 s
  for (const double offset : {-3.0, 3.0})
    expect_only(check_clocks({{0, 0}, {0, 0.001}, {offset, 0.001}}, {"a", "b", "c"}), Verdict::warning,
                {"c is", "3.000 s"}, "ssh c chronyc makestep");
}

TEST(DoctorClocks, MeasuresOffsetsWithinTheRoundTrip) {
  const auto world = make_local_communicators(3);
  const std::vector<double> ahead{0, 2.5, -7};
  std::vector<std::vector<ClockOffset>> measured(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back(
        [&, rank] { measured[rank] = measure_clocks(*world[rank], [&] { return wall_seconds() + ahead[rank]; }); });
  for (std::thread& rank : ranks) rank.join();
  for (const auto& offsets : measured)
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_NEAR(offsets[rank].seconds, ahead[rank], offsets[rank].uncertainty + 1e-5) << rank;
}

}  // namespace
}  // namespace ddp::doctor
