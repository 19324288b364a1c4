#include "ddp/run_profile.h"

#include "tests/ddp/sample_profile.h"
#include "tests/expect_error.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using nlohmann::json;
using testing::sample_profile;

TEST(RunProfile, IsReadAsItWasWritten) {
  RunProfile profile = sample_profile();
  profile.network = "a \"net\"\n\xff";
  profile.on_gpu = profile.zero = profile.computes_with_collectives = true;
  profile.ranks = 4;
  profile.hosts = profile.ranks_per_host = 2;
  profile.noise_scale = 363.5;
  profile.costs.link = {.latency_ms = 0.25, .ms_per_mib = 1.0 / 3};
  profile.costs.bucket_ms = 0.125;
  profile.spread = {{0, 0.9}, {0.999, 1.5}, {1, 4}};
  profile.trailer = 12;
  profile.gradient_bytes = 2;
  profile.data_ms = 0.5;
  profile.read_ms = 1.5;
  profile.workers = 3;
  const std::string text = to_json(profile);
  const RunProfile read = profile_from(text, "profile.json");
  EXPECT_EQ(to_json(read), text);
  EXPECT_EQ(read.noise_scale, 363.5);
  EXPECT_EQ(read.costs.link.ms_per_mib, 1.0 / 3);
  EXPECT_EQ(read.spread[1].share, 0.999);
  EXPECT_EQ(read.memory.total(), 800);
  EXPECT_FALSE(profile_from(to_json(sample_profile()), "profile.json").noise_scale);
}

// A pointer to a value, what is there instead, and the key that the message names.
TEST(RunProfile, OfAStrangerIsChecked) {
  struct Fault {
    const char *pointer, *value, *named;
  };
  for (const auto& [pointer, value, named] : std::vector<Fault>{
           {"/format", "2", "format 2"},
           {"/network", "3", "\"network\""},
           {"/zero", "1", "\"zero\""},
           {"/ranks", "0", "\"ranks\""},
           {"/ranks", "1.5", "\"ranks\""},
           {"/ranks", "3", "\"ranks\""},
           {"/hosts", "2", "\"ranks\""},
           {"/shard", "5", "\"shard\""},
           {"/micro_batches", "-1", "\"micro_batches\""},
           {"/micro_batches", "1099511627776", "\"micro_batches\""},
           {"/gradient_bytes", "9", "\"gradient_bytes\""},
           {"/compute_ms", "0", "\"compute_ms\""},
           {"/compute_ms", "1e-320", "\"compute_ms\""},
           {"/compute_ms", "\"1\"", "\"compute_ms\""},
           {"/data_ms", "-0.1", "\"data_ms\""},
           {"/read_ms", "1e300", "\"read_ms\""},
           {"/noise_scale", "0", "\"noise_scale\""},
           {"/parameters", "[]", "\"parameters\""},
           {"/parameters", "[1, 2, 0]", "\"parameters\""},
           {"/parameters", "[1, 2]", "\"costs.ready_ms\""},
           {"/parameters", "[20000000000000, 20000000000000, 1]", "\"parameters\""},
           {"/memory", "[]", "memory"},
           {"/memory/weights", "null", "\"memory.weights\""},
           {"/spread", "[[0, 1]]", "\"spread\""},
           {"/spread", "[[0, 1], [0.5, 1]]", "\"spread\""},
           {"/spread", "[[0, 1], [1, 0.5]]", "\"spread\""},
           {"/spread", "[[0, 1], [1e-300, 2], [1, 3]]", "\"spread\""},
           {"/spread", "[[0, 0], [1, 0]]", "\"spread\""},
           {"/spread", "[[0, 1, 2], [1, 1]]", "\"spread\""},
           {"/costs/ready_ms", "[2, 1, 3]", "\"costs.ready_ms\""},
           {"/costs/ready_ms", "[2, 6, 11]", "\"costs.compute_ms\""},
           {"/costs/compute_ms", "0", "\"costs.compute_ms\""},
           {"/costs", R"({"ready_ms": [0, 0, 0], "compute_ms": 1e-7})", "\"costs.compute_ms\""},
           {"/costs/link_latency_ms", "true", "\"costs.link_latency_ms\""},
       }) {
    json profile = json::parse(to_json(sample_profile()));
    profile[json::json_pointer(pointer)] = json::parse(value);
    SCOPED_TRACE(std::string(pointer) + ": " + value);
    expect_error(Exit::data, {"file.json", named}, [&] { profile_from(profile.dump(), "file.json"); });
  }
  const json whole = json::parse(to_json(sample_profile()));
  for (const auto& [key, value] : whole.items()) {
    json profile = whole;
    profile.erase(key);
    expect_error(Exit::data, {"file.json has no \"" + key + "\""}, [&] { profile_from(profile.dump(), "file.json"); });
  }
  for (const char* text : {"", "[]", "{", "{\"format\": 1e999}"})
    expect_error(Exit::data, {"file.json"}, [&] { profile_from(text, "file.json"); });
}

}  // namespace
}  // namespace ddp
