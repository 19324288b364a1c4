#include "app/run/token_options.h"

#include "core/error.h"

#include <gtest/gtest.h>

#include <string>

namespace ddp {
namespace {

std::string refused(const Options& options) {
  try {
    require_options_for_tokens(options);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::usage);
    return e.what();
  }
  return "";
}

TEST(TokenOptions, ThoseOfImagesAreRefused) {
  Options options;
  options.replica.label_smoothing = 0.1f;
  options.replica.averages = true;
  EXPECT_EQ(refused(options), "");
  Options mixup;
  mixup.replica.mix.mixup_alpha = 0.2;
  EXPECT_EQ(refused(mixup), "--mixup-alpha needs images; the data set is tokens");
  Options cutmix;
  cutmix.replica.mix.cutmix_alpha = 1;
  EXPECT_EQ(refused(cutmix), "--cutmix-alpha needs images; the data set is tokens");
  Options weights;
  weights.label_weights = "balanced";
  EXPECT_EQ(refused(weights), "--label-weights needs classes of images; the data set is tokens");
}

}  // namespace
}  // namespace ddp
