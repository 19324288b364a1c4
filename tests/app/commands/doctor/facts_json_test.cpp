#include "tests/app/commands/doctor/fakes.h"

namespace ddp::doctor {
namespace {

TEST(DoctorFacts, RoundTripAsText) {
  const RankFacts sent = with_gpus(1, 2)[1];
  const RankFacts got = facts_from(to_text(sent));
  EXPECT_EQ(got.host, sent.host);
  EXPECT_EQ(got.cores, sent.cores);
  EXPECT_EQ(got.gpu.uuid, sent.gpu.uuid);
  EXPECT_EQ(got.gpu.libraries.at(1).loaded, sent.gpu.libraries.at(1).loaded);
}

}  // namespace
}  // namespace ddp::doctor
