#include "app/commands/doctor/report.h"

#include "tests/app/commands/doctor/fakes.h"

#include <string>

namespace ddp::doctor {
namespace {

const Findings kFindings{all_ok("world", "2 ranks")[0], for_check("cores", warn("too few", "mpirun -np 1")),
                         for_check("output folder", fault(Exit::output, "full", "rm")),
                         for_check("GPUs", hint("nvidia-smi", fault(Exit::device, "none")))};

TEST(DoctorFinding, BelongsToItsCheck) {
  const Findings all = with_found({warn("one"), warn("two")}, "cores", "2 of 2");
  EXPECT_EQ(all[0].check + all[1].check, "corescores");
  EXPECT_EQ(all[0].found, "2 of 2");
  EXPECT_EQ(all[1].found, "");
  EXPECT_EQ(problem_of(Error(Exit::output, "a; b is full; empty it")), "a; b is full");
  EXPECT_EQ(problem_of(Error(Exit::output, "it is full")), "it is full");
}

TEST(DoctorReport, FirstFaultSetsTheExitCode) {
  EXPECT_EQ(code_of(kFindings), Exit::output);
  EXPECT_EQ(code_of({kFindings[0], kFindings[1]}), Exit::done);
  EXPECT_EQ(summary_of(kFindings), "2 faults, 1 warning\n");
}

TEST(DoctorReport, RowShowsProblemAndFix) {
  EXPECT_EQ(row_of(kFindings[0]), "world            ok       2 ranks\n");
  EXPECT_EQ(row_of(kFindings[1]),
            "cores            warning\n          wrong: too few\n            fix: mpirun -np 1\n");
  EXPECT_EQ(row_of(kFindings[3]), "GPUs             fault\n          wrong: none\n           hint: nvidia-smi\n");
}

TEST(DoctorReport, LineShowsProblemAndFix) {
  EXPECT_EQ(line_of(kFindings[1]), "too few; fix: mpirun -np 1");
  EXPECT_EQ(line_of(kFindings[3]), "none; hint: nvidia-smi");
}

TEST(DoctorReport, WritesJson) {
  const std::string text = json_of(kFindings, 2);
  for (const char* part : {"\"format\": 2", "\"ranks\": 2", "\"verdict\": \"warning\"", "\"fix\": \"mpirun -np 1\"",
                           "\"hint\": \"nvidia-smi\"", "\"faults\": 2", "\"exit_code\": 4"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in " << text;
}

}  // namespace
}  // namespace ddp::doctor
