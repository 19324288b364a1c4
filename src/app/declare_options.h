// The options as the command line knows them: names, help, and what may be said of each alone.
#pragma once

#include "app/options.h"

#include <string>

namespace CLI {
class App;
}

namespace ddp {

// Options whose value is parsed further.
struct OptionTexts {
  std::string init = "default", allreduce = "auto", optimizer = "sgd", decay = "l2", lr_scheduler = "constant",
              lr_warmup_method = "linear", lr_scale = "none", grad_dtype = "fp32", bn_stats = "recompute",
              conv = "auto", save_every = "1epochs", step_timeout = "auto";
};

// Both are written when the app parses.
void declare_options(CLI::App& app, Options& options, OptionTexts& texts);

}  // namespace ddp
