// Runs ddp_train as a user does, and returns its output and exit code.
#pragma once

#include "tests/number_after.h"
#include "tests/temp_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace ddp::testing {

struct Outcome {
  int code = -1;  // 124: it hung and was killed
  std::string output;
};

inline Outcome shell(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (!pipe) throw std::runtime_error("popen");
  Outcome outcome;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.output.append(buffer, n);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

// Runs without mpirun if `ranks` is 0. Hides the GPUs.
inline Outcome program(int ranks, const std::string& arguments) {
  const std::string run = ranks == 0 ? DDP_PROGRAM : fmt::format("{} -np {} {}", DDP_MPIRUN, ranks, DDP_PROGRAM);
  return shell(fmt::format("CUDA_VISIBLE_DEVICES= timeout -k 5 400 {} {}", run, arguments));
}

// Without AVX-512, there is no Winograd's algorithm.
inline bool has_avx512() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

// Whether a job with this exit code had a rank that was killed: 9 if another rank reports it first, else mpirun's code.
inline bool was_killed(int code) { return code == 9 || code == 128 + SIGKILL; }

inline int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace ddp::testing
