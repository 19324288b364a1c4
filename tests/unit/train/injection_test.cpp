#include "train/injection.h"

#include "core/error.h"
#include "tests/unit/data/expect_error.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

TEST(Injection, ParsesRankStepAndKind) {
  const Injection injection = parse_injection("rank=3,step=17,kind=hang");
  EXPECT_EQ(injection.rank, 3);
  EXPECT_EQ(injection.step, 17);
  EXPECT_EQ(injection.kind, Injection::Kind::hang);
}

TEST(Injection, RankAndStepAreOptional) {
  const Injection injection = parse_injection("kind=enospc");
  EXPECT_EQ(injection.rank, 0);
  EXPECT_EQ(injection.step, 1);
}

TEST(Injection, KnowsEveryKind) {
  using Kind = Injection::Kind;
  const std::vector<std::pair<std::string, Kind>> kinds{
      {"kill", Kind::kill},       {"hang", Kind::hang},     {"slow", Kind::slow}, {"nan", Kind::nan},
      {"bitflip", Kind::bitflip}, {"enospc", Kind::enospc}, {"exit", Kind::exit}};
  for (const auto& [name, kind] : kinds) EXPECT_EQ(parse_injection("kind=" + name).kind, kind) << name;
}

TEST(Injection, RefusesInvalidTextAndNamesIt) {
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
      {"kind=enospc,rank=1", "rank 0 alone writes checkpoints"}};
  for (const auto& [text, part] : texts)
    expect_error(Exit::usage, {"--inject " + text, part, "kind=hang"}, [&text = text] { parse_injection(text); });
}

std::string refused(Injector& injector, const std::string& path) {
  try {
    injector.before_write(path);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::output);
    return e.what();
  }
  return "";
}

TEST(Injection, FullDiskAffectsOneCheckpoint) {
  Injector injector(parse_injection("step=20,kind=enospc"), 0);
  EXPECT_EQ(refused(injector, "runs/x/checkpoints/.step-00000010.tmp/model.safetensors"), "");
  EXPECT_EQ(refused(injector, "runs/x/weights.safetensors"), "");
  EXPECT_NE(refused(injector, "runs/x/checkpoints/.step-00000025.tmp/model.safetensors").find("No space left"),
            std::string::npos);
  EXPECT_EQ(refused(injector, "runs/x/checkpoints/.step-00000030.tmp/model.safetensors"), "");
}

TEST(Injection, OtherRanksAreUnaffected) {
  Injector injector(parse_injection("step=20,kind=enospc"), 1), none(std::nullopt, 0);
  for (Injector* i : {&injector, &none}) EXPECT_EQ(refused(*i, "checkpoints/step-00000025/model.safetensors"), "");
}

}  // namespace
}  // namespace ddp
