// Facts of healthy ranks, which tests then change, and expectations on the doctor's findings.
#pragma once

#include "app/commands/doctor/checks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace ddp::doctor {

// `hosts` hosts a, b, ... of 8 cores with `of_each` ranks each. Every rank has two cores of its own.
inline std::vector<RankFacts> healthy(int hosts, int of_each) {
  std::vector<RankFacts> ranks;
  for (int host = 0; host < hosts; ++host)
    for (int local = 0; local < of_each; ++local) {
      RankFacts rank;
      rank.host = std::string(1, static_cast<char>('a' + host));
      rank.local_rank = local;
      rank.cores = {2 * local, 2 * local + 1};
      rank.gpu.why = "no NVIDIA driver, or one too old for this program";
      if (local == 0) {
        rank.here.cores.resize(8);
        std::iota(rank.here.cores.begin(), rank.here.cores.end(), 0);
        rank.here.cpu_max = "max 100000";
        rank.here.memory = {"/dev/shm", true, int64_t{8} << 30, int64_t{8} << 30, 4 << 20};
        rank.here.interfaces = {{"lo", true, {"127.0.0.1/8"}},
                                {"eth0", true, {fmt::format("10.0.0.{}/24", host + 1)}},
                                {"eth1", false, {}}};
      }
      ranks.push_back(rank);
    }
  return ranks;
}

// The same, and every rank has its own GPU.
inline std::vector<RankFacts> with_gpus(int hosts, int of_each) {
  std::vector<RankFacts> ranks = healthy(hosts, of_each);
  for (RankFacts& rank : ranks) {
    rank.gpu.visible = of_each;
    rank.gpu.why = "";
    rank.gpu.name = "NVIDIA H200";
    rank.gpu.bus_id = fmt::format("0000:{:02x}:00.0", rank.local_rank + 16);
    rank.gpu.uuid = rank.host + rank.gpu.bus_id;
    rank.gpu.driver = {13, 0, 0};
    rank.gpu.libraries = {
        {"CUDA", {13, 0, 0}, {13, 0, 0}}, {"cuDNN", {9, 19, 0}, {9, 19, 0}}, {"NCCL", {2, 28, 9}, {2, 28, 9}}};
  }
  return ranks;
}

// The ranks with one more environment variable.
inline std::vector<RankFacts> with_variable(std::vector<RankFacts> ranks, const std::string& name,
                                            const std::string& value) {
  for (RankFacts& rank : ranks) rank.environment[name] = value;
  return ranks;
}

inline void expect_fine(const Findings& findings) {
  EXPECT_FALSE(findings.empty());
  for (const Finding& f : findings) {
    EXPECT_EQ(f.verdict, Verdict::ok) << f.check << ": " << f.problem;
    EXPECT_FALSE(f.found.empty());
    EXPECT_EQ(f.problem + f.fix + f.hint, "");
  }
}

// Expects exactly one finding that is not ok. It has this verdict, this exit code, these words in its problem, and this
// line as its fix, or as its hint if the line begins with kHint.
constexpr char kHint[] = "hint: ";
inline void expect_only(const Findings& findings, Verdict verdict, const std::vector<std::string>& words,
                        const std::string& fix, Exit code = Exit::done) {
  int wrong = 0;
  for (const Finding& f : findings) {
    if (f.verdict == Verdict::ok) continue;
    ++wrong;
    EXPECT_EQ(f.verdict, verdict) << f.problem;
    EXPECT_EQ(f.code, code) << f.problem;
    for (const std::string& word : words)
      EXPECT_NE(f.problem.find(word), std::string::npos) << word << " is missing in: " << f.problem;
    EXPECT_EQ(f.hint.empty() ? f.fix : kHint + f.hint + f.fix, fix);
  }
  EXPECT_EQ(wrong, 1);
}

}  // namespace ddp::doctor
