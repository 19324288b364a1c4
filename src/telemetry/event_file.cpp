#include "telemetry/event_file.h"

#include "core/durable_file.h"
#include "core/error.h"
#include "core/host_name.h"
#include "core/stopwatch.h"
#include "telemetry/event.pb.h"
#include "telemetry/tfrecord.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <system_error>

namespace ddp {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";
constexpr size_t kDigitsOfTime = 10;

std::string record_of(const tensorboard::Event& event) { return tfrecord(event.SerializeAsString()); }

std::string first_records(int64_t first_step) {
  tensorboard::Event version, start;
  version.set_wall_time(wall_seconds());
  version.set_file_version("brain.Event:2");
  start.set_wall_time(version.wall_time());
  start.set_step(first_step);
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  return record_of(version) + record_of(start);
}

// The time in the name of an event file; 0: it is none of ours.
int64_t time_in(std::string_view name) {
  int64_t time = 0;
  if (!name.starts_with(kEventFilePrefix)) return time;
  const std::string_view digits = name.substr(kEventFilePrefix.size(), kDigitsOfTime);
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), time).ptr;
  return end == digits.data() + kDigitsOfTime ? time : 0;
}

// TensorBoard reads the files in the order of their names: the time in a new name is later than those of all others,
// also where the clock went back.
fs::path create_newest(const fs::path& folder, int64_t first_step) {
  auto time = static_cast<int64_t>(wall_seconds());
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    time = std::max(time, time_in(entry->path().filename().native()) + 1);
  require(!error, Exit::output, "cannot read the folder {}: {}; choose another --output-dir", folder.string(),
          error.message());
  const fs::path path = folder / fmt::format("{}{:010}.{}", kEventFilePrefix, time, host_name());
  write_durable_file(path, first_records(first_step));
  return path;
}

}  // namespace

EventFile::EventFile(const fs::path& folder, int64_t first_step) : file_(create_newest(folder, first_step)) {}

void EventFile::add(int64_t step, std::initializer_list<Scalar> scalars) {
  tensorboard::Event event;
  event.set_wall_time(wall_seconds());
  event.set_step(step);
  for (const Scalar& scalar : scalars) {
    const auto value = static_cast<float>(scalar.value);
    if (!std::isfinite(value)) continue;
    auto& added = *event.mutable_summary()->add_value();
    added.set_tag(scalar.tag);
    added.set_simple_value(value);
  }
  if (event.has_summary()) file_.write(record_of(event));
}

}  // namespace ddp
