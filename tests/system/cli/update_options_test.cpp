// The options of the optimizer and of the gradient move the weights as their formulas say, with the gradients of runs
// without them.
#include "tests/system/cli/option_runs.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace ddp::testing {
namespace {

constexpr double kTolerance = 1e-4;  // of the norm of the change of the weights

// The first step only fills the state of the optimizer.
const std::string kSecond = "--max-steps 2 --lr-warmup-epochs 0.25 --lr-warmup-method constant --lr-warmup-decay 0 ";

// A tensor at the start of the run, and the gradients of the first two batches there.
struct At {
  const std::string& name;
  const Doubles &w, &g1, &g2;
  double norm;  // of the first gradients of all tensors

  bool is_bias() const { return name.ends_with(".bias"); }
  bool is_head() const { return name.starts_with("3."); }
};

struct Update {
  std::string options;
  std::function<Doubles(const At&)> change;  // is subtracted from the weights
};

Doubles adam(const Doubles& m, const Doubles& v) { return m / (std::sqrt(v) + 0.01); }

// The tensor's own rate times its gradient, with weight decay d.
Doubles lars(const At& at, double d) {
  const Doubles g = at.g1 + d * at.w;
  return 0.02 * norm(at.w) / (norm(at.g1) + d * norm(at.w)) * g;
}

const std::vector<Update> kUpdates{
    {kOneStep + "--lr 0.5 --batch-size 32", [](const At& at) { return Doubles(0.25 * (at.g1 + at.g2)); }},
    {kOneStep + "--clip-grad-norm 0.125 --weight-decay 0.1 --no-decay-bias-norm",
     [](const At& at) { return Doubles(0.125 / at.norm * at.g1 + (at.is_bias() ? 0 : 0.1) * at.w); }},
    {kSecond + "--momentum 0.9 --weight-decay 0.1",
     [](const At& at) { return Doubles(0.9 * (at.g1 + 0.1 * at.w) + at.g2 + 0.1 * at.w); }},
    {kSecond + "--momentum 0.9 --nesterov --weight-decay 0.1 --decay decoupled",
     [](const At& at) { return Doubles(at.g2 + 0.9 * (0.9 * at.g1 + at.g2) + 0.1 * at.w); }},
    {kSecond + "--optimizer adam --adam-epsilon 0.01 --adam-beta1 0.5 --adam-beta2 0.75 --weight-decay 0.1",
     [](const At& at) {
       const Doubles g1 = at.g1 + 0.1 * at.w, g2 = at.g2 + 0.1 * at.w;
       const Doubles m = (0.25 * g1 + 0.5 * g2) / 0.75;
       const Doubles v = (0.1875 * g1 * g1 + 0.25 * g2 * g2) / 0.4375;
       return adam(m, v);
     }},
    {kOneStep + "--optimizer adamw --adam-epsilon 0.01 --weight-decay 0.1",
     [](const At& at) { return Doubles(adam(at.g1, at.g1 * at.g1) + 0.1 * at.w); }},
    {kOneStep + "--optimizer lars --lars-trust 0.02 --weight-decay 0.1", [](const At& at) { return lars(at, 0.1); }},
    {kOneStep + "--optimizer lars --lars-trust 0.02 --no-decay-bias-norm",
     [](const At& at) { return at.is_bias() ? at.g1 : lars(at, 0); }},
    {kSecond + "--momentum 0.9 --nesterov --weight-decay 0.1 --no-decay-bias-norm " +
         "--group 3.*:lr=0.5:weight-decay=0.2:momentum=0.5/*:lr=0.25",
     [](const At& at) {
       const bool head = at.is_head();
       const double momentum = head ? 0.5 : 0.9, decay = at.is_bias() ? 0 : head ? 0.2 : 0.1;
       const Doubles g = at.g2 + decay * at.w;
       return Doubles((head ? 0.5 : 0.25) * (g + momentum * (momentum * (at.g1 + decay * at.w) + g)));
     }},
    {kOneStep + "--lr 0.5 --head-lr 2 --group 3.bias:lr=0",
     [](const At& at) {
       return Doubles((at.name == "3.bias" ? 0 : at.is_head() ? 2 : 0.5) * at.g1);
     }},
    {kOneStep + "--optimizer adamw --adam-epsilon 0.01 --weight-decay 0.1 --group 3.weight:lr=2:weight-decay=0.3",
     [](const At& at) {
       const bool own = at.name == "3.weight";
       return Doubles((own ? 2 : 1) * (adam(at.g1, at.g1 * at.g1) + (own ? 0.3 : 0.1) * at.w));
     }},
    {kOneStep + "--optimizer lars --lars-trust 0.02 --weight-decay 0.1 --group 1.*:weight-decay=0/3.weight:lr=0.5",
     [](const At& at) { return at.is_head() ? Doubles((at.is_bias() ? 1 : 0.5) * lars(at, 0.1)) : Doubles(at.g1); }}};

class UpdateOptions : public OptionRuns {
 protected:
  const Weights& initial() { return run(kOneStep + "--lr 0").weights(); }
  Weights change(const std::string& options) { return change_on(0, options); }
  Weights change_on(int ranks, const std::string& options) { return initial() - run(options, ranks).weights(); }
  static double distance(const Weights& changed, const Weights& expected) {
    return norm(changed - expected) / norm(expected);
  }
  // Biases start at 0, so after a step at rate 1 they are gradients, with the sign changed.
  Doubles bias(const char* name, const std::string& options) {
    return run(kOneStep + "--init normal:0.03 " + options).weights().at(name);
  }
};

TEST_F(UpdateOptions, ChangeTheWeightsByTheirFormula) {
  const Weights &w = initial(), g1 = change(kOneStep), g2 = change(kSecond);
  for (const Update& update : kUpdates) {
    SCOPED_TRACE(update.options);
    Weights expected;
    for (const auto& [name, values] : w)
      expected[name] =
          update.change({.name = name, .w = values, .g1 = g1.at(name), .g2 = g2.at(name), .norm = norm(g1)});
    EXPECT_LE(distance(change(update.options), expected), kTolerance);
    const Weights& plain = update.options.starts_with(kOneStep) ? g1 : g2;
    EXPECT_GE(distance(plain, expected), 100 * kTolerance) << "the option has no effect here";
  }
}

// Ranks, sharded state, a resume inside an epoch and the run's own config.toml keep the groups.
TEST_F(UpdateOptions, GroupsStayThroughRanksAndAResume) {
  const std::string rule = "--lr 0.1 --momentum 0.5 --weight-decay 0.01 ",
                    groups = "--group 3.*:lr=0.5:weight-decay=0:momentum=0.9/1.bias:lr=0 ", six = "--max-steps 6 ";
  const Run& one = run(rule + groups + six);
  EXPECT_EQ(count(one.output, "group 3.*: 2570 parameters, lr 0.5, weight decay 0, momentum 0.9\n"), 1) << one.output;
  EXPECT_EQ(norm(change(rule + groups + six).at("1.bias")), 0);
  const Weights expected = change(rule + groups + six);
  EXPECT_LE(distance(change_on(2, rule + groups + six), expected), 1e-5);
  EXPECT_LE(distance(change_on(3, rule + groups + six + "--zero 1"), expected), 1e-5);
  EXPECT_GE(distance(change(rule + six), expected), 0.01);

  const Run& cut = run(rule + groups + "--max-steps 3 --save-every 3steps");
  const fs::path again = folder_ / "again";
  const Outcome restarted = program(0, fmt::format("--config {} --max-steps 6 --output-dir {}",
                                                   (cut.folder / "config.toml").string(), again.string()));
  EXPECT_EQ(restarted.code, 0) << restarted.output;
  EXPECT_TRUE(read_file(again / "model.safetensors") == one.bytes());
  const std::string resume = six + "--resume " + cut.folder.string();
  const Outcome refused = start("--group 3.*:lr=0.5 " + resume);
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_EQ(count(refused.output, "--group was 3.*:lr=0.5:weight-decay=0:momentum=0.9/1.bias:lr=0, is 3.*:lr=0.5; "), 1)
      << refused.output;
  const Outcome resumed = start("--lr 0.1 " + resume);
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(cut.bytes() == one.bytes());
  const Outcome plan = start(rule + groups + "--plan");
  EXPECT_EQ(count(plan.output, "group 1.bias: 256 parameters, lr 0, weight decay 0.01, momentum 0.5\n"), 1)
      << plan.output;
}

// The gradient of the last bias is the mean of (probabilities - target).
TEST_F(UpdateOptions, LabelSmoothingSpreadsTheTarget) {
  const std::string all = fmt::format("--batch-size {} ", kImages);
  const Doubles more = bias("3.bias", all) - bias("3.bias", all + "--label-smoothing 0.3");
  const std::string labels = read_file(folder_ / "images" / "train-labels-idx1-ubyte").substr(8);
  Doubles expected(10);
  for (size_t k = 0; k < expected.size(); ++k)
    expected[k] = 0.3 * (static_cast<double>(std::ranges::count(labels, static_cast<char>(k))) / kImages - 0.1);
  EXPECT_LE(norm(Doubles(more - expected)), kTolerance * norm(expected));
}

TEST_F(UpdateOptions, Bf16RoundsGradientsOrMultiplications) {
  const Doubles plain = bias("1.bias", ""), summed = bias("1.bias", "--grad-dtype bf16"),
                multiplied = bias("1.bias", "--precision bf16");
  const auto distance = [&](const Doubles& other) { return norm(Doubles(other - plain)) / norm(plain); };
  const auto is_bf16 = [](const Doubles& values) {
    return std::ranges::all_of(values,
                               [](double v) { return (std::bit_cast<uint32_t>(static_cast<float>(v)) & 0xffff) == 0; });
  };
  EXPECT_TRUE(is_bf16(summed) && !is_bf16(plain) && !is_bf16(multiplied));
  EXPECT_GE(distance(summed), 1e-4);
  EXPECT_LE(distance(summed), 1.0 / 256);
  EXPECT_GE(distance(multiplied), 1e-4);
  EXPECT_LE(distance(multiplied), 0.05);
}

// With --allreduce ring each rank counts as a host.
TEST_F(UpdateOptions, Int8RoundsGradientsBetweenHosts) {
  const std::string steps = "--max-steps 4 ", int8 = steps + "--grad-dtype int8 ", ring = int8 + "--allreduce ring ";
  const Weights plain = change_on(2, steps);
  EXPECT_GE(distance(change_on(2, ring), plain), 1e-4);
  EXPECT_LE(distance(change_on(2, ring), plain), 0.03);
  EXPECT_EQ(distance(change_on(2, int8), plain), 0);
  EXPECT_EQ(distance(change_on(1, int8), change_on(1, steps)), 0);
  EXPECT_EQ(count(run(ring, 2).output, " in int8 between hosts"), 1) << run(ring, 2).output;
  EXPECT_EQ(count(run(int8, 2).output, " in int8"), 0);
}

TEST_F(UpdateOptions, FreezeKeepsTensorsAndMovesTheOthers) {
  const Weights whole = change(kOneStep), frozen = change(kOneStep + "--freeze 1.bias,3"),
                several = change("--max-steps 5 --momentum 0.9 --weight-decay 0.1 --freeze 1.bias,3");
  EXPECT_EQ(norm(Weights{{"1.weight", frozen.at("1.weight") - whole.at("1.weight")}}), 0);
  for (const char* const name : {"1.bias", "3.weight", "3.bias"}) {
    EXPECT_GT(norm(whole.at(name)), 0) << name;
    EXPECT_EQ(norm(frozen.at(name)), 0) << name;
    EXPECT_EQ(norm(several.at(name)), 0) << name;
  }
  const std::string& output = run(kOneStep + "--freeze 1.bias,3").output;
  EXPECT_EQ(count(output, "mlp (203530 parameters, of which 200704 are trained and 2826 are frozen) on"), 1) << output;
}

// By the definitions of the values.
TEST_F(UpdateOptions, InitChoosesTheFirstWeights) {
  const auto first = [&](const std::string& options) { return run(kOneStep + "--lr 0 " + options).weights(); };
  const Weights normal = first("--init normal:0.03"), glorot = first("--init glorot");
  const Doubles& w = normal.at("1.weight");
  EXPECT_NEAR(norm(w) / std::sqrt(static_cast<double>(w.size())), 0.03, 0.0003);
  const double bound = std::sqrt(6.0 / (784 + 256)), largest = std::abs(glorot.at("1.weight")).max();
  EXPECT_LE(largest, bound * (1 + 1e-6));
  EXPECT_GE(largest, bound * 0.999);
  for (const Weights& weights : {normal, glorot}) EXPECT_EQ(norm(weights.at("1.bias")), 0);
}

}  // namespace
}  // namespace ddp::testing
