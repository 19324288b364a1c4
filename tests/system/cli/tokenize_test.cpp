// ddp_train tokenize as users start it.
#include "core/error.h"
#include "tests/system/cli/program.h"

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

// Few enough bytes that a full disk is quick, more than it has room for.
std::string book() {
  std::string text;
  for (int line = 0; text.size() < 100'000; ++line) text += fmt::format("Line {} of the book, about ranks.\n", line);
  return text;
}

TEST(Tokenize, WritesWhatATrainingReads) {
  const TempFolder folder;
  folder.write("book.txt", book());
  const std::string command = fmt::format("tokenize {0}/book.txt --vocabulary {1} --val-split 0.1 --output-dir {0}/out",
                                          folder.path().string(), DDP_MERGES);
  const Outcome outcome = program(0, command);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const double train = number_after(outcome.output, "out/train.bin: "),
               val = number_after(outcome.output, "out/val.bin: ");
  EXPECT_EQ(static_cast<double>(fs::file_size(folder / "out/train.bin")), 1024 + 2 * train);
  EXPECT_EQ(static_cast<double>(fs::file_size(folder / "out/val.bin")), 1024 + 2 * val);
  EXPECT_NEAR(val / (train + val), 0.1, 0.01);
  EXPECT_EQ(read_file(folder / "out/vocabulary.txt"), read_file(DDP_MERGES));

  const Outcome again = program(0, command);
  EXPECT_EQ(again.code, static_cast<int>(Exit::output));
  EXPECT_EQ(count(again.output, "out/vocabulary.txt: File exists; remove it"), 1) << again.output;
  const Outcome ranks = program(2, command);
  EXPECT_EQ(ranks.code, static_cast<int>(Exit::usage));
  EXPECT_EQ(count(ranks.output, "tokenize runs on one rank, not on 2: start it without mpirun"), 1) << ranks.output;
}

TEST(Tokenize, LeavesNothingOnAFullDisk) {
  const TempFolder folder;
  folder.write("book.txt", book());
  const Outcome full = shell(fmt::format(R"(cd {} && exec unshare -m bash -c '
    mkdir disk && mount -t tmpfs -o size=64k tmpfs disk || exit 77
    {} tokenize book.txt --vocabulary bytes --output-dir disk/out; code=$?
    ls -A disk/out; exit $code')",
                                         folder.path().string(), DDP_PROGRAM));
  if (full.code == 77) GTEST_SKIP() << "needs root and unshare: " << full.output;
  EXPECT_EQ(full.code, static_cast<int>(Exit::output));
  EXPECT_EQ(
      full.output,
      "ddp_train: error: cannot write disk/out/train.bin: No space left on device; make room or choose another name\n");
}

}  // namespace
}  // namespace ddp::testing
