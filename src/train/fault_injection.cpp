#include "train/fault_injection.h"

#include "core/error.h"
#include "train/step/replica.h"

#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace ddp {
namespace {

using Kind = FaultInjection::Kind;

constexpr std::array<std::string_view, 7> kKinds{"kill", "hang", "slow", "nan", "bitflip", "enospc", "exit"};
constexpr std::chrono::milliseconds kSlow{200};
constexpr uint32_t kHighMantissaBit = 1U << 22;

[[noreturn]] void refuse(std::string_view text, const std::string& what) {
  fail(Exit::usage, "--inject {}: {}; write it such as rank=1,step=17,kind=hang, kind one of {}", text, what,
       fmt::join(kKinds, ", "));
}

int64_t number(std::string_view text, std::string_view key, std::string_view value, int64_t from, int64_t to) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < from || number > to)
    refuse(text, fmt::format("{} is \"{}\", not a whole number of at least {}", key, value, from));
  return number;
}

Kind kind_of(std::string_view text, std::string_view value) {
  for (size_t i = 0; i < kKinds.size(); ++i)
    if (value == kKinds[i]) return static_cast<Kind>(i);
  refuse(text, fmt::format("there is no kind \"{}\"", value));
}

// The step of the checkpoint that the file belongs to; -1: of none.
int64_t step_in(const std::filesystem::path& path) {
  int64_t step = -1;
  for (const auto& part : path) {
    const std::string name = part.string(), mark = "step-";
    const size_t at = name.find(mark);
    if (at != std::string::npos) std::from_chars(name.data() + at + mark.size(), name.data() + name.size(), step);
  }
  return step;
}

// All steps issued so far see the weight as it was.
void flip_a_bit(Replica& replica) {
  float* const weight = replica.weights() + replica.parameters.front().offset;
  float value = 0;
  replica.device.download(&value, weight, sizeof value);
  replica.device.synchronize();
  value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ kHighMantissaBit);
  replica.device.upload(weight, &value, sizeof value);
  replica.model.bind();
}

void poison(const Replica& replica) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  replica.device.upload(replica.gradients() + replica.plan.buckets[0].offset, &nan, sizeof nan);
}

void sleep_if_slow(const FaultInjection& fault, int64_t step) {
  if (fault.kind == Kind::slow && step >= fault.step) std::this_thread::sleep_for(kSlow);
}

void strike_the_gradients(const FaultInjection& fault, int64_t step, const Replica& replica) {
  if (fault.kind == Kind::nan && step == fault.step) poison(replica);
  sleep_if_slow(fault, step);
}

void strike(const FaultInjection& fault, int64_t step, Replica& replica) {
  if (step != fault.step) return;
  if (fault.kind == Kind::kill) {
    raise(SIGKILL);
    _exit(128 + SIGKILL);  // the first process of a container ignores its own signals
  }
  if (fault.kind == Kind::exit) _exit(0);
  while (fault.kind == Kind::hang) std::this_thread::sleep_for(std::chrono::hours(1));
  if (fault.kind == Kind::bitflip) flip_a_bit(replica);
}

}  // namespace

FaultInjection parse_fault_injection(std::string_view text) {
  FaultInjection fault;
  std::set<std::string_view> seen;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, end - at);
    at = end + 1;
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) refuse(text, fmt::format("\"{}\" is not a key and its value", item));
    const std::string_view key = item.substr(0, equals), value = item.substr(equals + 1);
    if (!seen.insert(key).second) refuse(text, fmt::format("{} is given twice", key));
    if (key == "rank" && value == "all")
      fault.rank = std::nullopt;
    else if (key == "rank")
      fault.rank = static_cast<int>(number(text, key, value, 0, std::numeric_limits<int>::max()));
    else if (key == "step")
      fault.step = number(text, key, value, 1, std::numeric_limits<int64_t>::max());
    else if (key == "kind")
      fault.kind = kind_of(text, value);
    else
      refuse(text, fmt::format("there is no key \"{}\"", key));
  }
  if (!seen.contains("kind")) refuse(text, "kind is missing");
  if (fault.kind == Kind::enospc && fault.rank != 0)
    refuse(text, "rank 0 alone writes checkpoints, so enospc is for rank 0");
  return fault;
}

NextBatch with_fault(const FaultInjection& fault, Replica& replica, int64_t done, NextBatch next) {
  if (!fault.is_on(replica.communicator.rank()) || fault.kind == Kind::enospc) return next;
  const auto step = std::make_shared<int64_t>(done);  // the one that is issued
  // A rank that issues its steps while others replay graphs may differ from them for one step only.
  const bool slow_launch = fault.kind == Kind::slow && !replica.communicator.capturable();
  if (fault.kind == Kind::nan || slow_launch)
    replica.reducer.set_launch_hook(
        [&replica, step, fault, inner = replica.reducer.launch_hook()](int number, const std::function<void()>& run) {
          if (number == 0) strike_the_gradients(fault, *step, replica);
          inner(number, run);
        });
  return [&replica, fault, slow_launch, step, next = std::move(next),
          batch = DeviceBatch{}]() mutable -> const DeviceBatch& {
    batch = next();
    if (batch.plan.micro == 0) strike(fault, ++*step, replica);
    if (batch.plan.micro == 0 && !slow_launch) sleep_if_slow(fault, *step);
    batch.uncaptured = fault.kind == Kind::nan && *step == fault.step;
    return batch;
  };
}

std::function<void(const std::filesystem::path&)> full_disk(const FaultInjection& fault, int rank) {
  if (!fault.is_on(rank) || fault.kind != Kind::enospc) return {};
  return [at = fault.step, was_full = false](const std::filesystem::path& path) mutable {
    if (was_full || step_in(path) < at) return;
    was_full = true;
    fail(Exit::output, "{}: No space left on device (injected)", path.string());
  };
}

}  // namespace ddp
