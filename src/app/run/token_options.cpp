#include "app/run/token_options.h"

#include "core/error.h"

namespace ddp {

void require_options_for_tokens(const Options& options) {
  const auto refuse = [](bool given, const char* option, const char* needs) {
    require(!given, Exit::usage, "{} needs {}; the data set is tokens", option, needs);
  };
  refuse(options.replica.mix.mixup_alpha > 0, "--mixup-alpha", "images");
  refuse(options.replica.mix.cutmix_alpha > 0, "--cutmix-alpha", "images");
  refuse(!options.label_weights.empty(), "--label-weights", "classes of images");
}

}  // namespace ddp
