// A library that the CUDA driver loads into a program whose environment has CUDA_INJECTION64_PATH=libgpu_timeline.so
// and GPU_TIMELINE=PATH. It remembers the last kRecords kernels, copies and fills of the process and writes them to
// PATH.RANK when the program ends; a file of that name must not exist. The program itself does not change. On a
// failure the library writes a message to standard error; the program continues.
//
// The file has a line for each activity, in no order, with tabs between kind, begin, end (both in nanoseconds), stream,
// bytes (0 of a kernel) and name. Its first line has the number of activities that CUPTI lost.
#include <cupti.h>
#include <cxxabi.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr size_t kRecords = size_t{1} << 18;
constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr size_t kAlignment = 8;  // of a buffer, as CUPTI asks

struct Activity {
  const char* kind;
  uint64_t begin, end;  // ns
  uint32_t stream;
  uint64_t bytes;
  const std::string* name;  // as the compiler writes it
};

class Timeline {
 public:
  explicit Timeline(std::string path) : path_(std::move(path)) { last_.reserve(kRecords); }

  void add(uint8_t* buffer, size_t bytes) {
    const std::lock_guard lock(mutex_);
    CUpti_Activity* record = nullptr;
    while (bytes > 0 && cuptiActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) add(*record);
    size_t lost = 0;
    if (cuptiActivityGetNumDroppedRecords(nullptr, 0, &lost) == CUPTI_SUCCESS) lost_ += lost;
  }

  void write() {
    const std::lock_guard lock(mutex_);
    const int descriptor = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    FILE* const file = descriptor < 0 ? nullptr : fdopen(descriptor, "w");
    if (!file) return fail();
    std::fprintf(file, "lost\t%zu\n", lost_);
    for (const Activity& each : last_)
      std::fprintf(file, "%s\t%llu\t%llu\t%u\t%llu\t%s\n", each.kind, static_cast<unsigned long long>(each.begin),
                   static_cast<unsigned long long>(each.end), each.stream, static_cast<unsigned long long>(each.bytes),
                   readable(*each.name).c_str());
    const bool failed = std::ferror(file) != 0;
    if (std::fclose(file) != 0 || failed) fail();
  }

 private:
  void add(const CUpti_Activity& record) {
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
        return add({"kernel", kernel.start, kernel.end, kernel.streamId, 0, interned(kernel.name)});
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
        return add({"copy", copy.start, copy.end, copy.streamId, copy.bytes, interned(name_of(copy.copyKind))});
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
        return add({"fill", fill.start, fill.end, fill.streamId, fill.bytes, interned("fill")});
      }
      default: return;
    }
  }

  void add(const Activity& activity) {
    if (last_.size() < kRecords) return last_.push_back(activity);
    last_[oldest_] = activity;
    oldest_ = (oldest_ + 1) % kRecords;
  }

  const std::string* interned(const char* name) { return &*names_.emplace(name ? name : "?").first; }

  static const char* name_of(uint8_t kind) {
    switch (kind) {
      case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "copy to the device";
      case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "copy to the host";
      case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "copy on the device";
      default: return "copy";
    }
  }

  static std::string readable(const std::string& name) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                           &std::free);
    return status == 0 ? text.get() : name;
  }

  void fail() const {
    std::fprintf(stderr, "gpu_timeline: cannot write %s: %s\n", path_.c_str(), std::strerror(errno));
  }

  const std::string path_;
  std::mutex mutex_;
  std::vector<Activity> last_;
  size_t oldest_ = 0;
  size_t lost_ = 0;
  std::set<std::string> names_;
};

Timeline* timeline = nullptr;  // CUPTI's thread may use it until the process has ended

bool works(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return true;
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  std::fprintf(stderr, "gpu_timeline: %s failed: %s\n", call, text ? text : "unknown error");
  return false;
}

void give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *bytes = *buffer ? kBufferBytes : 0;
  *most_records = 0;  // as many as fit
}

void take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t filled) {
  timeline->add(buffer, filled);
  std::free(buffer);
}

void end() {
  works(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  timeline->write();
}

}  // namespace

// The driver calls it at its own initialization. Returns 1, which means success.
extern "C" int InitializeInjection() {
  const char* const path = std::getenv("GPU_TIMELINE");
  if (!path || timeline) return 1;
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  timeline = new Timeline(std::string(path) + "." + (rank ? rank : "0"));
  if (!works(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks")) return 1;
  // Not CUPTI_ACTIVITY_KIND_GRAPH_TRACE: it would hide the kernels of a graph.
  for (const auto kind :
       std::array{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    if (!works(cuptiActivityEnable(kind), "cuptiActivityEnable")) return 1;
  std::atexit(end);
  return 1;
}
