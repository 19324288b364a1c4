#include "telemetry/trace_file.h"

#include "core/durable_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <iterator>
#include <map>

namespace ddp {
namespace fs = std::filesystem;

namespace {

// The place of the lane in the viewer.
int thread_of(const Span& span) {
  switch (span.track) {
    case Track::step: return 1;
    case Track::layers: return 2;
    case Track::checkpoint: return 3;
    case Track::buckets: return 10 + span.lane;
    case Track::loader: return 10'000 + span.lane;
  }
  return 0;
}

std::string name_of_lane(const Span& span) {
  switch (span.track) {
    case Track::step: return "phases of the step";
    case Track::layers: return "layers";
    case Track::checkpoint: return "checkpoint writer";
    case Track::buckets: return fmt::format("bucket {}", span.lane);
    case Track::loader: return fmt::format("loader {}", span.lane);
  }
  return "unknown";
}

const char* number_name(const Span& span) {
  if (span.track != Track::loader) return "step";
  return std::strcmp(span.name, "read batch") == 0 ? "batch" : "sample";
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string metadata(const char* what, int rank, int thread, const std::string& arguments) {
  return fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}})", what, rank, thread, arguments);
}

double microseconds(int64_t ns) { return 1e-3 * static_cast<double>(ns); }

// Replaces the file by the begin of the array.
fs::path create_with_header(const fs::path& path, std::span<const std::string> hosts) {
  std::string begin = "[\n";
  for (int rank = 0; rank < std::ssize(hosts); ++rank) {
    const std::string name = quoted(fmt::format("rank {} on {}", rank, hosts[rank]));
    begin += (rank > 0 ? ",\n" : "") + metadata("process_name", rank, 0, "\"name\":" + name) + ",\n" +
             metadata("process_sort_index", rank, 0, fmt::format("\"sort_index\":{}", rank));
  }
  replace_file(path, begin, false);
  return path;
}

}  // namespace

TraceFile::TraceFile(const fs::path& path, std::span<const std::string> hosts)
    : file_(create_with_header(path, hosts)) {}

void TraceFile::append(int rank, std::span<const Span> spans) {
  fmt::memory_buffer text;
  std::map<const char*, std::string> names;  // quoted
  for (const Span& span : spans) {
    const int thread = thread_of(span);
    if (lanes_.emplace(rank, thread).second)
      fmt::format_to(std::back_inserter(text), ",\n{},\n{}",
                     metadata("thread_name", rank, thread, "\"name\":" + quoted(name_of_lane(span))),
                     metadata("thread_sort_index", rank, thread, fmt::format("\"sort_index\":{}", thread)));
    std::string& name = names[span.name];
    if (name.empty()) name = quoted(span.name);
    fmt::format_to(std::back_inserter(text),
                   ",\n"
                   R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"{}":{}}}}})",
                   name, name_of(span.track), rank, thread, microseconds(span.begin_ns),
                   microseconds(span.end_ns - span.begin_ns), number_name(span), span.number);
  }
  file_.write({text.data(), text.size()});
}

void TraceFile::end() {
  file_.write("\n]\n");
  file_.flush();
  ended_ = true;
}

void TraceFile::close() {
  if (!ended_) end();
  file_.close();
}

}  // namespace ddp
