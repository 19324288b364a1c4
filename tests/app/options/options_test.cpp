#include "app/inputs/token_sizes.h"
#include "tests/app/options/option_lines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ddp {
namespace {

std::string refusal(const std::string& line) {
  try {
    parse(line);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::usage) << line;
    return e.what();
  }
  return "nothing was refused";
}

std::filesystem::path scratch_file() {
  return std::filesystem::path(::testing::TempDir()) / fmt::format("options_test.{}.toml", ::getpid());
}

std::string refusal_of_file(const std::string& text) {
  std::ofstream(scratch_file()) << text;
  const std::string refused = refusal("--config " + scratch_file().string());
  std::filesystem::remove(scratch_file());
  return refused;
}

// Writes the options to a configuration file and parses the file. Returns the options that the program gets.
Options through_a_file(const Options& options, const std::string& more = "") {
  const auto file = scratch_file();
  std::ofstream(file) << options.effective_config;
  Options read = parse("--config " + file.string() + " " + more);
  std::filesystem::remove(file);
  return read;
}

TEST(Options, EveryOptionSurvivesTheConfigurationFile) {
  const Options plain = parse("");
  for (const std::string& line : kLines) {
    const Options options = parse(line);
    EXPECT_NE(options.effective_config, plain.effective_config) << line;
    EXPECT_EQ(through_a_file(options).effective_config, options.effective_config) << line;
  }
  EXPECT_EQ(through_a_file(plain).effective_config, plain.effective_config);
}

TEST(Options, ParsedValuesSurviveTheConfigurationFile) {
  const Options o = through_a_file(
      parse("--optimizer sgd --momentum 0.9 --nesterov --weight-decay 5e-4 --decay decoupled --no-decay-bias-norm "
            "--lr 0.1 --lr-scale linear --batch-size 512 --lr-scheduler multistep --lr-milestones 30,60 --lr-gamma 0.2 "
            "--lr-warmup-epochs 5 --epochs 90 --grad-dtype bf16 --zero 1 --init glorot"));
  EXPECT_EQ(o.replica.optimizer.kind, OptimizerDesc::Kind::sgd);
  EXPECT_EQ(o.replica.optimizer.momentum, 0.9f);
  EXPECT_EQ(o.replica.optimizer.weight_decay, 5e-4f);
  EXPECT_TRUE(o.replica.optimizer.nesterov && o.replica.optimizer.decoupled && !o.replica.all_decay);
  EXPECT_EQ(o.train.schedule.kind, ScheduleDesc::Kind::multi_step);
  EXPECT_EQ(o.train.schedule.milestones, (std::vector<double>{30, 60}));
  EXPECT_DOUBLE_EQ(o.train.schedule.lr, 0.2);
  EXPECT_EQ(o.train.schedule.gamma, 0.2);
  EXPECT_EQ(o.train.schedule.total_epochs, 90);
  EXPECT_EQ(o.train.schedule.warm_up_epochs, 5);
  EXPECT_EQ(o.replica.grad_dtype, GradDType::bf16);
  EXPECT_TRUE(o.replica.zero);
  EXPECT_EQ(o.network.init.kind, Init::Kind::glorot);
}

// Conflicts with the number are found when it is known.
TEST(Options, TheBatchMayBeTheLargest) {
  const Options o = parse("--batch-size max --accumulate 4 --lr-scale linear --lr-scheduler cosine --lr-min 1");
  EXPECT_TRUE(o.batch.largest);
  EXPECT_NE(o.effective_config.find("batch-size = 'max'"), std::string::npos) << o.effective_config;
  NamedValues given = o.given;
  given["--batch-size"] = "4096";
  const Options known = options_of(given, {});
  EXPECT_FALSE(known.batch.largest);
  EXPECT_EQ(known.batch.size, 4096);
  EXPECT_NEAR(known.train.schedule.lr, 0.2 * 16, 1e-12);
  EXPECT_NE(known.effective_config.find("batch-size = 4096\n"), std::string::npos) << known.effective_config;
  given["--batch-size"] = "3";
  EXPECT_THROW(options_of(given, {}), Error);
  for (const char* wrong : {"--batch-size 0", "--batch-size maxi", "--batch-size 1.5"})
    EXPECT_THROW(parse(wrong), Error);
}

TEST(Options, ParsesSaveEvery) {
  const auto every = [](const std::string& text) { return parse("--save-every " + text).train.save_every; };
  EXPECT_EQ(every("100steps").steps, 100);
  EXPECT_EQ(every("1step").steps, 1);
  EXPECT_EQ(every("2epochs").epochs, 2);
  EXPECT_EQ(every("10min").seconds, 600);
  EXPECT_EQ(every("1.5s").seconds, 1.5);
  EXPECT_TRUE(every("never").never());
  EXPECT_EQ(parse("").train.save_every.epochs, 1);
  EXPECT_TRUE(every("100steps").at_step(200) && !every("100steps").at_step(150) && !every("100steps").at_epoch(100));
  EXPECT_TRUE(every("2epochs").at_epoch(4) && !every("2epochs").at_epoch(3) && !every("2epochs").at_step(4));
}

TEST(Options, RefusesInvalidConfigurationFiles) {
  for (const std::string text : {"lr = \u00e9", "lr = [=]", "-- = 1", "lr = []", "lr = [[1]]", "[lr]", "lr = {}"})
    EXPECT_NE(refusal_of_file(text).find("configuration file"), std::string::npos) << text;
  EXPECT_NE(refusal_of_file("#" + std::string(70000, ' ')).find("configuration file"), std::string::npos);
}

constexpr const char* kTwoGroups = R"(lr = 0.2
lr-scale = "linear"
batch-size = 512
[[group]]
match = "fc.*"
weight-decay = 0
lr = 0.10
[[group]]
match = "conv1.*"
momentum = 8e-1
)";

TEST(Options, TablesOfGroupsAreTheValueOfGroup) {
  std::ofstream(scratch_file()) << kTwoGroups;
  const Options o = parse("--config " + scratch_file().string());
  EXPECT_EQ(o.named.at("--group"), "fc.*:lr=0.1:weight-decay=0/conv1.*:momentum=0.8");
  EXPECT_EQ(o.given.at("--group"), o.named.at("--group"));
  ASSERT_EQ(o.replica.groups.size(), 2u);
  EXPECT_EQ(o.replica.groups[0].rate, 0.5);
  EXPECT_EQ(o.replica.groups[1].rate, 1);
  EXPECT_EQ(o.replica.groups[1].momentum, 0.8);
  EXPECT_EQ(o.train.schedule.lr, 0.4);
  EXPECT_EQ(o.replica.optimizer.states(), 1);
  EXPECT_EQ(parse("--config " + scratch_file().string() + " --group *:lr=1").replica.groups.size(), 1u);
  EXPECT_EQ(through_a_file(o).effective_config, o.effective_config);
  EXPECT_EQ(parse("--lr 0.2 --lr-scale linear --batch-size 512 --head-lr 0.1").head.rate, 0.5);
}

TEST(Options, RefusesWrongGroups) {
  const auto refused = [](const std::string& text, const std::string& message) {
    EXPECT_EQ(refusal_of_file(text), message) << text;
  };
  const std::string first = "[[group]]\nmatch = \"fc.*\"\nlr = 0.1\n[[group]]\n", second = first + "match = \"a.*\"\n";
  refused(second + "rate = 1", "group 2: there is no value \"rate\"; give lr, weight-decay or momentum");
  refused(second + "lr = -1", "group 2: lr -1 is not a number from 0, at most 1e+38");
  refused(second + "momentum = nan", "group 2: momentum nan is not a number from 0, at most 1");
  refused(second + "lr = \"0.1/b:lr=2\"", "group 2: lr 0.1/b:lr=2 is not a number from 0, at most 1e+38");
  refused(second, "group 2 (a.*) has no value; give it lr, weight-decay or momentum");
  refused(first + "match = \"a:lr\"\nlr = 1",
          "group 2 cannot match \"a:lr\": give the names of parameters, such as fc.weight, where * stands for any "
          "text, as in fc.*");
  refused("lr = 0\n" + first + "match = \"b\"\nlr = 1",
          "--group 1 has an lr, which needs --lr above 0, because the schedule multiplies both");
  const auto refused_line = [](const std::string& line, const std::string& message) {
    EXPECT_EQ(refusal(line), message) << line;
  };
  refused_line("--group a:lr=1/b:lr=1:lr=2", "group 2 has lr twice; leave one of them out");
  refused_line("--group a:lr", "group 1: \"lr\" is no value such as lr=0.1");
  refused_line("--group a:lr=1//b:lr=2",
               "group 2 cannot match \"\": give the names of parameters, such as fc.weight, where * stands for any "
               "text, as in fc.*");
  refused_line("--optimizer adam --group a:lr=1/b:momentum=0.5",
               "--group 2 has a momentum, which needs --optimizer sgd or lars");
  refused_line("--lr 1e-38 --group a:lr=10",
               "--group 1 has an lr, which must be finite times --lr-scale, and divided "
               "by --lr");
  refused_line("--lr 0 --head-lr 1", "--head-lr needs --lr above 0, because the schedule multiplies both");
  std::string many = "a:lr=1";
  for (int i = 0; i < 64; ++i) many += "/a:lr=1";
  refused_line("--group " + many, "there are 65 groups; the limit is 64");
}

TEST(Options, SelectsOptimizersByName) {
  const auto desc = [](const std::string& line) { return parse("--optimizer " + line).replica.optimizer; };
  EXPECT_EQ(desc("adam --weight-decay 0.1").kind, OptimizerDesc::Kind::adam);
  EXPECT_FALSE(desc("adam --weight-decay 0.1").decoupled);
  EXPECT_EQ(desc("adamw --weight-decay 0.1").kind, OptimizerDesc::Kind::adam);
  EXPECT_TRUE(desc("adamw --weight-decay 0.1").decoupled);
  EXPECT_EQ(desc("lars").kind, OptimizerDesc::Kind::lars);
  EXPECT_EQ(parse("").replica.optimizer.kind, OptimizerDesc::Kind::sgd);
}

TEST(Options, CommandLineOverridesTheFile) {
  EXPECT_EQ(through_a_file(parse("--lr 0.5 --epochs 3"), "--lr 0.25").train.schedule.lr, 0.25);
  EXPECT_EQ(through_a_file(parse("--lr 0.5 --epochs 3"), "--lr 0.25").train.epochs, 3);
}

TEST(Options, GivenTwiceAreRefused) {
  for (const std::string line : {"--lr 0.1 --lr 0.2", "--lr=0.1 --lr 0.1", "--sync-bn --epochs 3 --sync-bn",
                                 "--rank-weights 2 --rank-weights 1", "--output-dir --lr --lr 1 --lr 2"}) {
    const std::string text = refusal(line), name = line.find("sync") != line.npos   ? "--sync-bn"
                                                   : line.find("rank") != line.npos ? "--rank-weights"
                                                                                    : "--lr";
    EXPECT_EQ(text, name + " is given twice; leave one of them out") << line;
  }
  EXPECT_EQ(parse("--output-dir --lr --lr 1").output.dir, "--lr");
}

TEST(Options, UnexpectedWordsAreNamedInTheirOrder) {
  EXPECT_EQ(parse(fmt::format("--vocab-size {}", kMostVocabulary)).data.vocabulary_size, kMostVocabulary);
  EXPECT_NE(refusal(fmt::format("--vocab-size {}", kMostVocabulary + 1)).find("--vocab-size"), std::string::npos);
  EXPECT_EQ(refusal("--lr 1 first --frobnicate second"),
            "not expected: first, --frobnicate, second; ddp_train --help lists the options");
}

struct Refused {
  const char* line;
  std::vector<const char*> names;  // names that the message must contain
};

TEST(Options, RefusesOptionsWithoutEffect) {
  const Refused cases[] = {
      {"--optimizer adam --momentum 0.9", {"--momentum", "sgd or lars"}},
      {"--optimizer adam --momentum 0", {"--momentum", "sgd or lars"}},
      {"--nesterov", {"--nesterov", "--momentum"}},
      {"--ra-magnitude 3", {"--ra-magnitude", "needs --auto-augment ra"}},
      {"--auto-augment ta_wide --ra-magnitude 9", {"--ra-magnitude", "needs --auto-augment ra"}},
      {"--auto-augment ra --ra-magnitude 31", {"--ra-magnitude", "31"}},
      {"--auto-augment augmix", {"--auto-augment", "none,ta_wide,ra"}},
      {"--auto-augment ra --interpolation bicubic", {"--auto-augment", "needs --interpolation bilinear or nearest"}},
      {"--optimizer lars --momentum 0.9 --nesterov", {"--nesterov", "--optimizer sgd"}},
      {"--decay decoupled", {"--decay", "--weight-decay"}},
      {"--optimizer adam --weight-decay 1 --decay l2", {"--decay", "--optimizer sgd"}},
      {"--no-decay-bias-norm", {"--no-decay-bias-norm", "--weight-decay"}},
      {"--adam-beta1 0.8", {"--adam-beta1", "adam"}},
      {"--adam-beta2 0.8", {"--adam-beta2", "adam"}},
      {"--optimizer lars --adam-epsilon 0.8", {"--adam-epsilon", "adam"}},
      {"--lars-trust 0.1", {"--lars-trust", "lars"}},
      {"--lr-base-batch 64", {"--lr-base-batch", "--lr-scale"}},
      {"--lr-step-size 2", {"--lr-step-size", "--lr-scheduler step"}},
      {"--lr-scheduler cosine --lr-gamma 0.5", {"--lr-gamma", "step, multistep or plateau"}},
      {"--lr-scheduler step --lr-milestones 3", {"--lr-milestones", "multistep"}},
      {"--lr-scheduler multistep", {"--lr-milestones"}},
      {"--lr-scheduler multistep --lr-milestones 6,3", {"--lr-milestones", "ascend"}},
      {"--lr-min 0.01", {"--lr-min", "cosine, linear or plateau"}},
      {"--lr-scheduler cosine --lr-min 0.3", {"--lr-min", "0.2"}},
      {"--lr-scheduler cosine --lr-power 2", {"--lr-power", "polynomial"}},
      {"--lr-scheduler polynomial --lr-min 0.01", {"--lr-min", "cosine, linear or plateau"}},
      {"--lr-pct-start 0.5", {"--lr-pct-start", "onecycle"}},
      {"--lr-scheduler onecycle --lr-pct-start 1.5", {"--lr-pct-start"}},
      {"--lr-scheduler onecycle --lr-warmup-epochs 1", {"--lr-warmup-epochs", "excludes --lr-scheduler onecycle"}},
      {"--lr-scheduler step --lr-plateau-patience 3", {"--lr-plateau-patience", "plateau"}},
      {"--lr-scheduler plateau --lr-gamma 1", {"--lr-gamma", "below 1"}},
      {"--lr-scheduler plateau --lr-min 0.3", {"--lr-min", "0.2"}},
      {"--lr-scheduler plateau --eval-every 0", {"--lr-scheduler", "--eval-every"}},
      {"--early-stop 2 --eval-every 0", {"--early-stop", "--eval-every"}},
      {"--model-ema-decay 0.9", {"--model-ema-decay", "needs --model-ema"}},
      {"--model-ema --model-ema-decay 1.5", {"--model-ema-decay"}},
      {"--model-ema --model-ema-steps 0", {"--model-ema-steps"}},
      {"--lr-warmup-method linear", {"--lr-warmup-method", "--lr-warmup-epochs"}},
      {"--lr-warmup-decay 0.1", {"--lr-warmup-decay", "--lr-warmup-epochs"}},
      {"--lr-warmup-epochs 10", {"--lr-warmup-epochs", "--epochs"}},
      {"--lr 1e38 --lr-scale linear --batch-size 512 --lr-base-batch 1", {"--lr-scale"}},
      {"--batch-size 3 --accumulate 4", {"--accumulate", "--batch-size"}},
      {"--zero 1 --optimizer lars", {"--zero", "lars"}},
      {"--resume auto", {"--resume auto", "--output-dir"}},
      {"--resume runs/1 --init-from x", {"--resume", "--init-from"}},
      {"--keep-best --eval-every 0", {"--keep-best", "--eval-every"}},
      {"--save-every 100", {"--save-every 100", "100steps"}},
      {"--save-every 0steps", {"--save-every 0steps"}},
      {"--save-every 1.5epochs", {"--save-every 1.5epochs"}},
      {"--save-every nanmin", {"--save-every nanmin"}},
      {"--keep-last -1", {"--keep-last"}},
      {"--step-timeout -1", {"--step-timeout"}},
      {"--step-timeout soon", {"--step-timeout soon"}},
      {"--check-every -1", {"--check-every"}},
      {"--init default --init-from x", {"--init", "--init-from"}},
      {"--init normal:-1", {"--init"}},
      {"--label-smoothing 1.5", {"--label-smoothing"}},
      {"--clip-grad-norm nan", {"--clip-grad-norm"}},
      {"--lr inf", {"--lr"}},
      {"--lr fast", {"--lr"}},
      {"--momentum -0.1", {"--momentum"}},
      {"--optimizer adam --adam-beta2 1", {"--adam-beta2"}},
      {"--optimizer adagrad", {"--optimizer"}},
      {"--zero 2", {"--zero"}},
      {"--rank-weights 1,0", {"--rank-weights 1,0: give auto, or a number above 0"}},
      {"--rank-weights 1,nan", {"--rank-weights"}},
      {"--rank-weights auto,1", {"--rank-weights"}},
      {"--rank-weights auto --sync-bn", {"--rank-weights auto excludes --sync-bn"}},
      {"--rank-weights auto --zero 1", {"--rank-weights auto excludes --zero 1"}},
      {"--rank-weights auto --deterministic",
       {"--rank-weights auto excludes --deterministic: it chooses shards by measurement"}},
      {"--grad-dtype int8 --allreduce mpi", {"--grad-dtype int8 excludes --allreduce mpi"}},
      {"--grad-dtype int8 --transport nccl", {"--transport nccl", "from GPUs it takes --transport mpi"}},
      {"--rank-weights auto --batch-size max", {"--rank-weights auto excludes --batch-size max"}},
      {"--bucket-cap-mb nan", {"--bucket-cap-mb"}},
      {"--epochs 0", {"--epochs"}},
      {"--skip-bad-steps -1", {"--skip-bad-steps"}},
  };
  for (const Refused& refused : cases) {
    const std::string text = refusal(refused.line);
    for (const char* name : refused.names) EXPECT_NE(text.find(name), text.npos) << refused.line << ": " << text;
  }
}

}  // namespace
}  // namespace ddp
