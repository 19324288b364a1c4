// The contract suite of the ops: each test runs on the backends of its program and compares them with the plain loops
// of tests/ops/reference. A program links one of backend_cpu.cpp, backend_emulated.cpp and backend_gpu.cpp. On the
// emulator the reference ops take the place of cuDNN and cuBLASLt, so the layers show what the ops make of them.
#pragma once

#include "device/cpu/device.h"
#include "ops/cpu/instruction_set.h"
#include "ops/ops.h"
#include "ops/precision.h"
#include "tests/judge.h"
#include "tests/ops/on_device.h"
#include "tests/ops/reference/ops.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace ddp::testing {

// The backends that run a case. Large cases run only where they test the partition of the work.
enum class On { every, cpu, cuda, gpu };  // cuda: on the emulator and on a GPU

struct Backend {
  enum class Kind { reference, cpu, emulated, gpu };

  std::string name;  // in the names of tests
  Kind kind = Kind::cpu;
  Precision precision = Precision::fp32;
  std::optional<InstructionSet> forced = {};  // the set of the CPU's kernels; none: the processor's best
  std::string missing = {};                   // what this machine lacks; then the tests are skipped
  std::vector<Format> formats = {{}};         // of activations
  std::vector<Format> linear_formats = {{}};  // of the input of a linear layer
  std::vector<int> threads = {1};             // all numbers of threads give the same bits
  std::vector<int64_t> offsets = {0};         // elements before flat data; 1 makes all pointers unaligned
  DType parameters = DType::f32;              // type of the copies of weights and biases that ops read
  bool deterministic = false;                 // two Ops on a GPU give the same bits

  // Bounds of the errors, relative to the norm, and of each error, relative to the largest value. 0: each value is
  // correct to half a unit in the last place of bf16.
  double activations = 1e-5;        // of activations and of their gradients
  double products = 1e-5;           // of activations and of their gradients in convolutions and linear layers
  double weights = 1e-5;            // of the gradients of weights and biases
  double weights_per_root = 0;      // more of that for each root of the number of summands
  double sums = 1e-5;               // of sums of many f32 values
  double gradients = 1e-2;          // of gradients against finite differences
  float gradient_step = 1.0f / 16;  // of the finite differences; a power of two

  bool cuda() const { return kind == Kind::emulated || kind == Kind::gpu; }
  bool runs(On on) const {
    return on == On::every || (on == On::cpu && !cuda()) || (on == On::cuda && cuda()) ||
           (on == On::gpu && kind == Kind::gpu);
  }
  DType type() const { return precision == Precision::bf16 ? DType::bf16 : DType::f32; }
};

inline void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

inline std::string text_of(Format format) {
  const char* const kinds[] = {"dense", "batch_interleaved", "blocked_channels"};
  return fmt::format("{} {}", kinds[static_cast<int>(format.kind)], format.block);
}

// Bounds of the results of a convolution.
struct ConvBounds {
  double activations;  // y and dx
  double weights = 0;  // dweight, where larger than the usual one
};
// Winograd's algorithm rounds transformed values, and cancels parts of their products. The errors of large tiles are
// the largest.
inline constexpr ConvBounds kBf16Winograd{6e-3, 2e-2}, kF32Winograd{3e-5, 3e-5};

// The backend files define these.
std::vector<Backend> backends();  // the reference ops, if present, are the last one
std::unique_ptr<Device> make_device(const Backend& backend);
std::unique_ptr<Ops> make_ops(Device& device, const Backend& backend, int threads);
// Calls `check` for each implementation of the convolution, with the format of its input and the bounds of its results.
void each_convolution(Device& device, const Backend& backend, Conv2dDesc desc, int64_t n,
                      const std::function<void(Conv2d&, Format, const ConvBounds&)>& check);

// A norm alone could hide a single wrong value of a large tensor, so the bound holds for the largest error too.
inline ::testing::AssertionResult within(double bound, const Deviation& of) {
  if (of.error <= bound * of.norm + 1e-12 && of.largest_error <= bound * of.largest + 1e-12)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "the errors are " << of.error / of.norm << " of the norm, at most "
                                       << of.largest_error / of.largest << " of the largest value, not " << bound;
}

inline bool is_compared(const Backend& b) { return b.kind != Backend::Kind::reference; }
inline bool is_fp32(const Backend& b) { return b.precision == Precision::fp32 && !b.forced; }
// Our kernels, which follow the forced set, convolve in f32.
inline bool convolves(const Backend& b) { return b.type() == DType::f32 || !b.forced; }
// Ops on spans of f32 values do not depend on the type of activations. The GPU runs them at every precision.
inline bool runs_spans(const Backend& b) { return b.type() == DType::f32 || b.kind == Backend::Kind::gpu; }

template <class... Condition>
std::vector<Backend> backends_where(Condition... holds) {
  std::vector<Backend> tested = backends();
  std::erase_if(tested, [&](const Backend& b) { return !(holds(b) && ...); });
  return tested;
}

// Replaces NaN, which compares unequal to itself, by a number.
inline Values comparable(Values values) {
  std::ranges::replace_if(
      values, [](float v) { return std::isnan(v); }, 256.0f);
  return values;
}

inline int64_t count_nans(const Values& values) {
  return std::ranges::count_if(values, [](float v) { return std::isnan(v); });
}

inline const auto kBackendName = [](const auto& tested) { return tested.param.name; };

// Each backend with each case that it runs. A case has a member `on`, and name_of(case) is a part of the test's name.
template <class Cases, class... Condition>
auto on_each_backend(const Cases& cases, Condition... holds) {
  std::vector<std::pair<Backend, std::decay_t<decltype(*std::begin(cases))>>> all;
  for (const Backend& backend : backends_where(is_compared, holds...))
    for (const auto& c : cases)
      if (backend.runs(c.on)) all.emplace_back(backend, c);
  return ::testing::ValuesIn(all);
}
inline const auto kCaseName = [](const auto& tested) {
  return tested.param.first.name + "_" + name_of(tested.param.second);
};

// The base of all fixtures. each_setup changes `format`, `before`, `threads` and `ops`.
class OpsFixture {
 protected:
  explicit OpsFixture(const Backend& tested) : backend(tested) {}

  void skip_if_it_cannot_run() const {
    if (!backend.missing.empty()) GTEST_SKIP() << "this machine has no " << backend.missing;
  }

  // Calls body() for each format, offset and number of threads.
  template <class F>
  void each_setup(const std::vector<Format>& formats, const std::vector<int64_t>& offsets, F&& body) {
    for (const Format f : formats)
      for (const int64_t o : offsets)
        for (const int t : backend.threads) {
          SCOPED_TRACE(fmt::format("{}, {} threads, offset {}", text_of(f), t, o));
          format = f;
          before = o;
          if (threads != t) ops = make_ops(*device, backend, t);
          threads = t;
          body();
        }
  }
  template <class F>
  void each_setup(F&& body) {
    each_setup(backend.formats, {0}, body);
  }

  Values random(int64_t count, uint64_t seed) const { return rounded(random_values(count, seed), type); }

  TensorOnDevice filled(const Shape& shape, const Values& values, float padding = 0) const {
    return {*device, shape, format, type, values, padding, before};
  }
  TensorOnDevice unwritten(const Shape& shape) const { return {*device, shape, format, type, before}; }  // holds NaN
  template <class T>
  OnDevice<T> on_device(const std::vector<T>& values) const {
    return {*device, values, before};
  }
  OnDevice<float> unwritten(int64_t count) const { return on_device(Values(count, std::nanf(""))); }

  // `bound`: see Backend.
  void expect_within(double bound, const Values& actual, const Values& expected, const char* what) const {
    ASSERT_EQ(actual.size(), expected.size()) << what;
    const Deviation of = deviation(actual, expected);
    if (backend.kind == Backend::Kind::gpu)  // for the table of tests/gpu/check
      std::printf("figure: error = %.2g\n", of.norm > 0 ? of.error / of.norm : of.error);
    if (bound > 0) {
      EXPECT_TRUE(within(bound, of)) << what;
      return;
    }
    const int64_t at = reference::first_inexact(actual, expected);
    EXPECT_EQ(at, -1) << what << ": " << actual[at] << " for " << expected[at];
  }
  void expect_activations(const Values& actual, const Values& expected, const char* what) const {
    expect_within(backend.activations, actual, expected, what);
  }

  // `padding`: the lanes past n and the channels past c.
  static void expect_zero(const Values& padding, const char* what) {
    EXPECT_EQ(padding, Values(padding.size())) << what << " beside its values";
  }
  static void expect_finite(const Values& padding, const char* what) {
    EXPECT_TRUE(std::ranges::all_of(padding, [](float v) { return std::isfinite(v); })) << what << " beside its values";
  }

  const Backend backend;
  const DType type = backend.type();
  const std::unique_ptr<Device> host = make_cpu_device(), device = make_device(backend);
  const std::unique_ptr<Ops> reference = make_reference_ops(*host);
  Format format;
  int64_t before = 0;
  int threads = backend.threads.front();
  std::unique_ptr<Ops> ops = make_ops(*device, backend, threads);
};

class BackendTest : public ::testing::TestWithParam<Backend>, protected OpsFixture {
 protected:
  BackendTest() : OpsFixture(GetParam()) {}
  void SetUp() override { skip_if_it_cannot_run(); }
};

template <class Case>
class CaseTest : public ::testing::TestWithParam<std::pair<Backend, Case>>, protected OpsFixture {
 protected:
  CaseTest() : OpsFixture(CaseTest::GetParam().first) {}
  void SetUp() override { skip_if_it_cannot_run(); }
  const Case c = CaseTest::GetParam().second;
};

}  // namespace ddp::testing
