// ddp_train evaluate: the figures of a training, again, on any number of ranks.
#include "core/error.h"
#include "tests/system/cli/run_folder.h"
#include "tests/system/cli/three_colours.h"

namespace ddp::testing {
namespace {

json parsed(const fs::path& file) { return json::parse(read_file(file)); }

class Evaluate : public ThreeColours {
 protected:
  Outcome evaluate(int ranks, const std::string& arguments) const { return program(ranks, "evaluate " + arguments); }
};

// The training sees 2 of 24 validation pictures as another class: see ThreeColours.
TEST_F(Evaluate, EqualsTheTrainingAtAnyNumberOfRanks) {
  const json summary = parsed(run / "summary.json");
  const std::string matrix =
      "class,\"blue, deep\",\"green\nlight\",rot\n\"blue, deep\",8,0,0\n\"green\nlight\",1,7,0\nrot,1,0,7\n";
  EXPECT_EQ(read_file(run / "confusion.csv"), matrix);
  EXPECT_FALSE(summary.contains("top5_accuracy"));
  EXPECT_EQ(summary.at("per_class").at(0),
            (json{{"class", "blue, deep"}, {"count", 8}, {"precision", 0.8}, {"recall", 1.0}, {"f1", 16.0 / 18}}));
  EXPECT_DOUBLE_EQ(summary.at("macro_f1"), (16.0 / 18 + 14.0 / 15 * 2) / 3);

  for (const int ranks : {1, 3}) {
    const fs::path out = folder / fmt::format("out{}", ranks);
    const Outcome outcome = evaluate(ranks, fmt::format("{} --data-path {} --batch-size 10 --output-dir {}",
                                                        run.string(), (folder / "data").string(), out.string()));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(count(outcome.output, "acc 0.9167 (22/24), loss"), 1) << outcome.output;
    const json evaluation = parsed(out / "evaluation.json");
    EXPECT_EQ(evaluation.at("accuracy"), summary.at("test_accuracy"));
    EXPECT_EQ(evaluation.at("per_class"), summary.at("per_class"));
    EXPECT_EQ(evaluation.at("macro_f1"), summary.at("macro_f1"));
    EXPECT_EQ(evaluation.at("world_size"), ranks);
    EXPECT_EQ(read_file(out / "confusion.csv"), matrix);
  }

  // Rank 0 alone reads the weights: here, rank 1 has no such file.
  fs::create_directory(folder / "elsewhere");
  const auto rank = [&](const fs::path& where) {
    return fmt::format("-np 1 -wdir {} {} evaluate {} --data-path {}", where.string(), DDP_PROGRAM,
                       fs::relative(run, folder.path()).string(), (folder / "data").string());
  };
  const Outcome apart = shell(fmt::format("CUDA_VISIBLE_DEVICES= timeout -k 5 400 {} {} : {}", DDP_MPIRUN,
                                          rank(folder.path()), rank(folder / "elsewhere")));
  EXPECT_EQ(apart.code, 0) << apart.output;
  EXPECT_EQ(count(apart.output, "acc 0.9167 (22/24), loss"), 1) << apart.output;
}

// A second plan of the network evaluates larger images on the weights of the last step, with the batch norms'
// statistics that the first plan has computed. A kill in the second of two epochs changes nothing.
TEST_F(Evaluate, EqualsATrainingThatEvaluatesLargerImages) {
  const fs::path larger = folder / "larger", out = folder / "out";
  const std::string data = (folder / "data").string();
  const auto options = [&](const char* name) {
    return fmt::format(
        "--data-path {} --train-crop-size 16 --val-crop-size 32 --batch-size 16 --epochs 2 --lr 0.02 "
        "--print-freq 0 --mean 0.5 --std 0.25 --output-dir {} ",
        data, (folder / name).string());
  };
  const Outcome refused = program(0, options("refused") + "--model mlp");
  EXPECT_EQ(refused.code, static_cast<int>(Exit::usage));
  EXPECT_EQ(count(refused.output, "--val-crop-size 32 differs from the crop of training, 16: mlp has other weights"), 1)
      << refused.output;

  const Outcome training = program(2, options("larger") + "--model torchvision-resnet18");
  ASSERT_EQ(training.code, 0) << training.output;
  const std::string saves = options("cut") + "--model torchvision-resnet18 --save-every 3steps ";
  ASSERT_NE(program(2, saves + "--inject rank=1,step=5,kind=kill").code, 0);
  const Outcome resumed = program(2, saves + "--resume auto");
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, "resumed from"), 1) << resumed.output;
  for (const char* file : {"model.safetensors", "confusion.csv"})
    EXPECT_TRUE(read_file(folder / "cut" / file) == read_file(larger / file)) << file;

  const Outcome outcome = evaluate(
      0, fmt::format("{} --data-path {} --batch-size 16 --output-dir {}", larger.string(), data, out.string()));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(read_file(out / "confusion.csv"), read_file(larger / "confusion.csv"));
  const double loss = values_of<double>(larger, "eval", "loss").back();
  EXPECT_NEAR(parsed(out / "evaluation.json").at("loss"), loss, 1e-4 * loss);
}

TEST_F(Evaluate, ComputesInThePrecisionOfTheTraining) {
  const fs::path bf16 = folder / "bf16";
  const std::string data = (folder / "data").string();
  const Outcome training =
      program(0, fmt::format("--data-path {} --model mlp --train-crop-size 16 --batch-size 16 --epochs 1 --lr 0.02 "
                             "--print-freq 0 --precision bf16 --output-dir {}",
                             data, bf16.string()));
  ASSERT_EQ(training.code, 0) << training.output;
  const double loss = values_of<double>(bf16, "eval", "loss").back();
  for (const bool given : {false, true}) {
    const fs::path out = folder / fmt::format("given{}", given);
    const Outcome outcome =
        evaluate(0, fmt::format("{} --data-path {} --batch-size 16 --output-dir {} {}", bf16.string(), data,
                                out.string(), given ? "--precision fp32" : ""));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(count(outcome.output, "--precision bf16, as in the training"), given ? 0 : 1) << outcome.output;
    const double difference = std::abs(parsed(out / "evaluation.json").at("loss").get<double>() - loss);
    if (given)
      EXPECT_GE(difference, 1e-6 * loss);
    else
      EXPECT_LE(difference, 1e-7 * loss);
  }
}

// Data with some of the network's classes, in another order and without parts, are evaluated whole.
TEST_F(Evaluate, MatchesClassesByName) {
  const fs::path val = folder / "data" / "val";
  fs::remove_all(val / "blue, deep");
  const std::string arguments =
      fmt::format("{} --data-path {} --output-dir {}", run.string(), val.string(), (folder / "out").string());
  Outcome outcome = evaluate(0, arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(read_file(folder / "out" / "confusion.csv"),
            "class,\"blue, deep\",\"green\nlight\",rot\n\"blue, deep\",0,0,0\n\"green\nlight\",1,7,0\nrot,1,0,7\n");
  EXPECT_TRUE(parsed(folder / "out" / "evaluation.json").at("per_class").at(0).at("recall").is_null());

  std::ofstream(val / "rot" / "page.png") << "<html>";
  outcome = evaluate(2, arguments + " --on-error skip");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(read_file(folder / "out" / "skipped-validation.txt"), "rot/page.png"), 1);
  fs::remove(val / "rot" / "page.png");

  fs::rename(val / "rot", val / "red");
  outcome = evaluate(0, arguments);
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::data));
  EXPECT_EQ(count(outcome.output, "classes that the network lacks: red;"), 1) << outcome.output;

  fs::rename(val, folder / "val");
  fs::create_directories(val / "rot");
  outcome = evaluate(0, fmt::format("{} --data-path {}", run.string(), (folder / "data").string()));
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::data));
  EXPECT_EQ(count(outcome.output, "the folder val holds no pictures; put the pictures to evaluate there"), 1)
      << outcome.output;
  fs::remove_all(val);
  fs::rename(folder / "val", val);

  outcome = evaluate(0, fmt::format("{} --data-path {} --seed 3", run.string(), val.string()));
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::usage));
  EXPECT_EQ(count(outcome.output, "--seed needs --val-split"), 1) << outcome.output;

  outcome = evaluate(0, fmt::format("{0} --data-path {1} --output-dir {0}", run.string(), val.string()));
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::output));
  EXPECT_EQ(count(outcome.output, "holds a run"), 1) << outcome.output;

  const fs::path bare = folder / "bare.safetensors";
  strip_metadata(run / "model.safetensors", bare);
  outcome = evaluate(0, fmt::format("{} --data-path {}", bare.string(), val.string()));
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::usage));
  EXPECT_EQ(count(outcome.output,
                  "give --model, and for a network that reads images --classes or --class-names, --val-crop-size, "
                  "--channels, --mean too"),
            1)
      << outcome.output;
  std::ofstream(folder / "names") << "blue, deep\ngreen\nrot\n";
  outcome = evaluate(0, fmt::format("{} --data-path {} --model keras-convnet --class-names {} --val-crop-size 32 "
                                    "--channels 3 --mean 0.5 --std 0.25",
                                    bare.string(), val.string(), (folder / "names").string()));
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::data));
  EXPECT_EQ(count(outcome.output, "the data have classes that the network lacks"), 1) << outcome.output;
}

}  // namespace
}  // namespace ddp::testing
