#include "train/fault_injection.h"

#include "core/error.h"
#include "tests/expect_error.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

TEST(FaultInjection, ParsesRankStepAndKind) {
  const FaultInjection injection = parse_fault_injection("rank=3,step=17,kind=hang");
  EXPECT_TRUE(injection.is_on(3));
  EXPECT_FALSE(injection.is_on(0));
  EXPECT_EQ(injection.step, 17);
  EXPECT_EQ(injection.kind, FaultInjection::Kind::hang);
}

TEST(FaultInjection, RankAndStepAreOptional) {
  const FaultInjection injection = parse_fault_injection("kind=enospc");
  EXPECT_TRUE(injection.is_on(0));
  EXPECT_FALSE(injection.is_on(1));
  EXPECT_EQ(injection.step, 1);
}

TEST(FaultInjection, MayBeOnEveryRank) {
  const FaultInjection injection = parse_fault_injection("rank=all,kind=slow");
  for (const int rank : {0, 1, 1000}) EXPECT_TRUE(injection.is_on(rank));
}

TEST(FaultInjection, KnowsEveryKind) {
  using Kind = FaultInjection::Kind;
  const std::vector<std::pair<std::string, Kind>> kinds{
      {"kill", Kind::kill},       {"hang", Kind::hang},     {"slow", Kind::slow}, {"nan", Kind::nan},
      {"bitflip", Kind::bitflip}, {"enospc", Kind::enospc}, {"exit", Kind::exit}};
  for (const auto& [name, kind] : kinds) EXPECT_EQ(parse_fault_injection("kind=" + name).kind, kind) << name;
}

TEST(FaultInjection, RefusesInvalidTextAndNamesIt) {
  const std::vector<std::pair<std::string, std::string>> texts{
      {"", "\"\" is not a key"},
      {"rank=1,step=2", "kind is missing"},
      {"kind=kil", "no kind \"kil\""},
      {"kind=kill,", "\"\" is not a key"},
      {"kind=kill,kind=kill", "kind is given twice"},
      {"kind=kill,when=3", "no key \"when\""},
      {"kind=kill,rank=-1", "rank is \"-1\""},
      {"kind=kill,rank=99999999999", "rank is \"99999999999\""},
      {"kind=kill,rank=1x", "rank is \"1x\""},
      {"kind=kill,step=0", "step is \"0\""},
      {"kind=kill,step=", "step is \"\""},
      {"kind=enospc,rank=1", "rank 0 alone writes checkpoints"},
      {"kind=enospc,rank=all", "rank 0 alone writes checkpoints"}};
  for (const auto& [text, part] : texts)
    expect_error(Exit::usage, {"--inject " + text, part, "kind=hang"}, [&text = text] { parse_fault_injection(text); });
}

std::string refused(const std::function<void(const std::filesystem::path&)>& about_to_write, const std::string& path) {
  try {
    about_to_write(path);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::output);
    return e.what();
  }
  return "";
}

TEST(FaultInjection, FullDiskAffectsOneCheckpoint) {
  const auto disk = full_disk(parse_fault_injection("step=20,kind=enospc"), 0);
  EXPECT_EQ(refused(disk, "runs/x/checkpoints/.step-00000010.tmp/model.safetensors"), "");
  EXPECT_EQ(refused(disk, "runs/x/weights.safetensors"), "");
  EXPECT_NE(refused(disk, "runs/x/checkpoints/.step-00000025.tmp/model.safetensors").find("No space left"),
            std::string::npos);
  EXPECT_EQ(refused(disk, "runs/x/checkpoints/.step-00000030.tmp/model.safetensors"), "");
}

TEST(FaultInjection, OtherRanksAndKindsAreUnaffected) {
  EXPECT_FALSE(full_disk(parse_fault_injection("step=20,kind=enospc"), 1));
  EXPECT_FALSE(full_disk(parse_fault_injection("step=20,kind=nan"), 0));
}

}  // namespace
}  // namespace ddp
