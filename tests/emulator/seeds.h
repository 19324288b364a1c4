// Runs a test under several orders of streams.
#pragma once

#include "emulator/emulator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace emulator {

inline constexpr uint64_t kFixedSeeds[] = {0, 1};

// The fixed seeds and a drawn one, or only that of DDP_EMULATOR_SEED.
inline std::vector<uint64_t> seeds() {
  if (const char* const only = std::getenv("DDP_EMULATOR_SEED")) return {std::strtoull(only, nullptr, 10)};
  std::vector<uint64_t> seeds(std::begin(kFixedSeeds), std::end(kFixedSeeds));
  seeds.push_back(std::random_device()());
  return seeds;
}

// The command that runs the current test with this seed alone.
inline std::string command_for(uint64_t seed) {
  const auto& test = *::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = test.name();
  return "DDP_EMULATOR_SEED=" + std::to_string(seed) + " launch/test asan -R '\\." + test.test_suite_name() + "\\." +
         name.substr(0, name.find('/')) + "$'";
}

// Prints the command of the current seed after each failure.
class CommandPrinter : public ::testing::EmptyTestEventListener {
 public:
  static CommandPrinter& get() {
    static CommandPrinter& printer = *[] {
      auto* const made = new CommandPrinter;
      ::testing::UnitTest::GetInstance()->listeners().Append(made);  // which owns it
      return made;
    }();
    return printer;
  }
  void set(std::string command) { command_ = std::move(command); }

 private:
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::printf("fails again: %s\n", command_.c_str());
    std::fflush(stdout);
  }

  std::string command_;
};

// Runs `body` under each of seeds(), up to the first that fails.
inline void for_each_seed(const std::function<void()>& body) {
  for (const uint64_t seed : seeds()) {
    const std::string command = command_for(seed);
    CommandPrinter::get().set(command);
    std::printf("runs: %s\n", command.c_str());  // the last line before a crash
    std::fflush(stdout);
    set_seed(seed);
    body();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace emulator
