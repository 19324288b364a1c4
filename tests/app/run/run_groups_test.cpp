#include "app/run/run_groups.h"

#include "core/error.h"
#include "nn/models.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

std::vector<Parameter> mlp() { return parameters_of(make_model("mlp", {28, 28, 1}, 10)); }

std::string refused_groups(const Options& options, const std::vector<Parameter>& parameters) {
  try {
    groups_of_run(options, parameters);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::usage);
    return e.what();
  }
  return "nothing was refused";
}

TEST(RunGroups, AreDescribedWithTheirValues) {
  Options o;
  EXPECT_EQ(describe_groups(o, mlp()), "");
  o.train.schedule.lr = 0.2;
  o.replica.optimizer.momentum = 0.9f;
  o.replica.optimizer.weight_decay = 0.5f;
  o.replica.groups = {{.match = "*.bias", .weight_decay = 0, .momentum = 0.5}};
  o.head = {.lr = 0.1, .rate = 0.5};
  EXPECT_EQ(describe_groups(o, mlp()),
            "group *.bias: 266 parameters, lr 0.2, weight decay 0, momentum 0.5\n"
            "group 3.*: 2560 parameters, lr 0.1, weight decay 0.5, momentum 0.9\n"
            "other parameters: 200704 parameters, lr 0.2, weight decay 0.5, momentum 0.9\n");
  o.replica.optimizer = {.kind = OptimizerDesc::Kind::adam};
  o.replica.groups = {{.match = "*", .lr = 0.2}};
  o.replica.all_decay = false;
  o.head.lr.reset();
  EXPECT_EQ(describe_groups(o, mlp()),
            "group *: 203530 parameters, lr 0.2, weight decay 0\n"
            "biases and norms in all of them: no weight decay\n");
}

TEST(RunGroups, WithoutAParameterAreRefused) {
  Options o;
  o.replica.groups = {{.match = "3.*", .lr = 1}, {.match = "fc.*", .lr = 1}};
  EXPECT_EQ(refused_groups(o, mlp()),
            "group 2 (fc.*) matches no trained parameter; the network has 1.bias, 1.weight, 3.bias, 3.weight");
  o.replica.groups[1].match = "3.weight";
  EXPECT_EQ(refused_groups(o, mlp()),
            "group 2 (3.weight) has no parameter: groups before it match all of them; change their order");
  o.replica.groups.pop_back();
  o.head.lr = 1;
  EXPECT_EQ(refused_groups(o, mlp()),
            "--head-lr (3.*) has no parameter: groups before it match all of them; change their order");
  o.replica.groups.clear();
  EXPECT_EQ(refused_groups(o, parameters_of(Network("plain", {5, 5, 1}).conv2d(2, 5).flatten())),
            "--head-lr needs a last linear layer with a weight of its own; use --group");
}

}  // namespace
}  // namespace ddp
