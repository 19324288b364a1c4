#include "train/injection.h"

#include "core/error.h"
#include "train/replica.h"

#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <limits>
#include <set>
#include <string>
#include <thread>

namespace ddp {
namespace {

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

Injection::Kind kind_of(std::string_view text, std::string_view value) {
  for (size_t i = 0; i < kKinds.size(); ++i)
    if (value == kKinds[i]) return static_cast<Injection::Kind>(i);
  refuse(text, fmt::format("there is no kind \"{}\"", value));
}

// Of the checkpoint that the file belongs to; -1: of none.
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

}  // namespace

Injection parse_injection(std::string_view text) {
  Injection injection;
  std::set<std::string_view> seen;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, end - at);
    at = end + 1;
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) refuse(text, fmt::format("\"{}\" is not a key and its value", item));
    const std::string_view key = item.substr(0, equals), value = item.substr(equals + 1);
    if (!seen.insert(key).second) refuse(text, fmt::format("{} is given twice", key));
    if (key == "rank")
      injection.rank = static_cast<int>(number(text, key, value, 0, std::numeric_limits<int>::max()));
    else if (key == "step")
      injection.step = number(text, key, value, 1, std::numeric_limits<int64_t>::max());
    else if (key == "kind")
      injection.kind = kind_of(text, value);
    else
      refuse(text, fmt::format("there is no key \"{}\"", key));
  }
  if (!seen.contains("kind")) refuse(text, "kind is missing");
  if (injection.kind == Injection::Kind::enospc && injection.rank != 0)
    refuse(text, "rank 0 alone writes checkpoints, so enospc is for rank 0");
  return injection;
}

Injector::Injector(const std::optional<Injection>& injection, int rank) {
  if (injection && injection->rank == rank) injection_ = injection;
}

void Injector::before_step(int64_t step, Replica& replica) const {
  if (!injection_ || step < injection_->step) return;
  if (is(Injection::Kind::slow)) std::this_thread::sleep_for(kSlow);
  if (step > injection_->step) return;
  if (is(Injection::Kind::kill)) raise(SIGKILL);
  if (is(Injection::Kind::exit)) _exit(0);
  while (is(Injection::Kind::hang)) std::this_thread::sleep_for(std::chrono::hours(1));
  if (is(Injection::Kind::bitflip)) flip_a_bit(replica);
}

void Injector::before_bucket(int64_t step, int bucket, Replica& replica) const {
  if (bucket != 0 || !unrecorded(step)) return;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  replica.device.upload(replica.gradients() + replica.plan.buckets[0].offset, &nan, sizeof nan);
}

bool Injector::unrecorded(int64_t step) const { return is(Injection::Kind::nan) && step == injection_->step; }

void Injector::before_write(const std::filesystem::path& path) {
  if (disk_was_full_ || !is(Injection::Kind::enospc) || step_in(path) < injection_->step) return;
  disk_was_full_ = true;
  fail(Exit::output, "{}: No space left on device (injected)", path.string());
}

}  // namespace ddp
