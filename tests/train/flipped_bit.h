// The replica check on a replica of which one rank flips one bit.
#pragma once

#include "core/error.h"
#include "tests/train/fixture.h"
#include "tests/train/small.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>

namespace ddp::testing {

inline void flip_lowest_bit(const Replica& r, float* value) {
  float held = 0;
  r.device.download(&held, value, sizeof held);
  r.device.synchronize();
  held = std::bit_cast<float>(std::bit_cast<uint32_t>(held) ^ 1);
  r.device.upload(value, &held, sizeof held);
}

// The text of the replica check while the last rank holds another bit in `value`; empty if the check passes.
inline std::string message_of_a_flipped(const Replica& r, float* value) {
  const bool flips = r.communicator.rank() + 1 == r.communicator.size();
  if (flips) flip_lowest_bit(r, value);
  std::string message;
  try {
    r.check_replicas();
  } catch (const CollectiveError& e) {
    EXPECT_EQ(e.code(), Exit::communication);
    message = e.what();
  }
  if (flips) flip_lowest_bit(r, value);
  return message;
}

// Every rank of a world of at least two must call it.
inline void expect_a_flipped_bit_is_named_in(const Network& network, Communicator& communicator, Device& device,
                                             Ops& ops) {
  const MemoryDataset data = small_data(16);
  Fixture fixture({.batch_size = 16, .replica = {.averages = true}}, network, data, device, ops, communicator);
  const Replica& r = fixture.replica;
  const auto expect_named = [&](const std::string& name, float* value) {
    const std::string message = message_of_a_flipped(r, value), start = name + " is not the same on all ranks";
    EXPECT_EQ(message.substr(0, start.size()), start);
  };
  for (const Parameter& p : {r.parameters.front(), r.parameters.back()}) {
    expect_named(p.name, r.weights() + p.offset);
    expect_named(p.name, r.weights() + p.offset + p.count - 1);
  }
  for (const BatchNormState& n : {r.batch_norms.front(), r.batch_norms.back()}) {
    expect_named(n.layer_name, r.running_stats() + n.span.offset);
    expect_named(n.layer_name, r.running_stats() + n.span.offset + 2 * n.span.channels - 1);
  }
  expect_named("the average of " + r.parameters.back().name,
               r.average->weights() + r.parameters.back().offset + r.parameters.back().count - 1);
  expect_named("the average of " + r.batch_norms.front().layer_name,
               r.average->running_stats() + r.batch_norms.front().span.offset);
  r.check_replicas();
}
inline void expect_a_flipped_bit_is_named(Communicator& communicator, Device& device, Ops& ops) {
  expect_a_flipped_bit_is_named_in(norm_network(), communicator, device, ops);
}

}  // namespace ddp::testing
