// A step that computes NaN ends the run with the same message on every rank, and changes no weight.
#pragma once

#include "core/error.h"
#include "tests/train/fixture.h"
#include "tests/train/small.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace ddp::testing {

// Trains with a NaN weight. Returns the message that ended the run. Every rank must call it.
inline std::string train_from_a_nan(Communicator& communicator, Device& device, Ops& ops) {
  const MemoryDataset data = small_data(50);
  Fixture fixture({.batch_size = 16}, small_network(), data, device, ops, communicator);
  const auto before = fixture.replica.download_weights();
  std::vector<float> weights = before;
  weights[0] = NAN;
  fixture.replica.load(weights);
  std::string message;
  try {
    fixture.losses(0, 6);
  } catch (const CollectiveError& e) {
    EXPECT_EQ(e.code(), Exit::numerics);
    message = e.what();
  }
  const auto after = fixture.replica.download_weights();
  EXPECT_TRUE(std::equal(before.begin() + 1, before.end(), after.begin() + 1));
  return message;
}

// `messages` has one message per rank.
inline void expect_one_message_about_step_1(const std::vector<std::string>& messages) {
  for (const std::string& message : messages) {
    EXPECT_EQ(message, messages[0]);
    EXPECT_NE(message.find("step 1"), std::string::npos) << message;
  }
}

}  // namespace ddp::testing
