// The library of timelines, with CUPTI's calls defined here: the program's own symbols come before those of libcupti.
#include <cupti.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr size_t kKept = size_t{1} << 18;  // kRecords of timeline.cpp

CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;
std::vector<CUpti_ActivityKind> enabled;
size_t kernels = 3;  // to report
CUptiResult result_of_enable = CUPTI_SUCCESS;

template <class Record>
Record record(CUpti_ActivityKind kind, uint64_t begin, uint64_t end, uint32_t stream) {
  Record made;
  std::memset(&made, 0, sizeof made);
  made.kind = kind;
  made.start = begin;
  made.end = end;
  made.streamId = stream;
  return made;
}

// Fills buffers of the library with the records, as many as fit into each.
class Writer {
 public:
  ~Writer() { hand_over(); }

  template <class Record>
  void write(const Record& record) {
    if (!buffer_ || filled_ + sizeof record > bytes_) {
      hand_over();
      size_t most = 1;
      request(&buffer_, &bytes_, &most);
      ASSERT_EQ(most, 0U);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer_) % 8, 0U);
    }
    std::memcpy(buffer_ + filled_, &record, sizeof record);
    filled_ += sizeof record;
  }

 private:
  void hand_over() {
    if (buffer_) complete(nullptr, 0, buffer_, bytes_, filled_);
    buffer_ = nullptr;
    filled_ = 0;
  }

  uint8_t* buffer_ = nullptr;
  size_t bytes_ = 0, filled_ = 0;
};

size_t bytes_of(const CUpti_Activity& record) {
  return record.kind == CUPTI_ACTIVITY_KIND_MEMCPY   ? sizeof(CUpti_ActivityMemcpy6)
         : record.kind == CUPTI_ACTIVITY_KIND_MEMSET ? sizeof(CUpti_ActivityMemset4)
                                                     : sizeof(CUpti_ActivityKernel10);
}

}  // namespace

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed) {
  request = requested;
  complete = completed;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  enabled.push_back(kind);
  return result_of_enable;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t bytes, CUpti_Activity** record) {
  uint8_t* const next = *record ? reinterpret_cast<uint8_t*>(*record) + bytes_of(**record) : buffer;
  if (next >= buffer + bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 4;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "what CUPTI says";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  if (flag != CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) return CUPTI_ERROR_INVALID_PARAMETER;
  Writer writer;
  for (size_t i = 0; i < kernels; ++i) {
    auto kernel =
        record<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 1000 * i + 1, 1000 * i + 500, 7);
    kernel.name = "_ZN3ddp4reluEPfi";
    writer.write(kernel);
  }
  auto copy = record<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, 20, 30, 8);
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  copy.bytes = 4096;
  writer.write(copy);
  auto fill = record<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, 40, 50, 9);
  fill.bytes = 64;
  writer.write(fill);
  return CUPTI_SUCCESS;
}

}  // extern "C"

namespace {

[[noreturn]] void inject_and_exit() {
  void* const library = dlopen(GPU_TIMELINE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) std::fprintf(stderr, "%s\n", dlerror());
  const auto inject = library ? reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection")) : nullptr;
  exit(inject && inject() == 1 && inject() == 1 ? 0 : 1);
}

class GpuTimeline : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "timeline-XXXXXX").string();
    ASSERT_TRUE(mkdtemp(name.data()));
    folder_ = name;
    setenv("GPU_TIMELINE", (folder_ / "lines").c_str(), 1);
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> lines() const {
    std::ifstream file(folder_ / "lines.2");
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }

  std::filesystem::path folder_;
};

TEST_F(GpuTimeline, WritesTheActivitiesAtTheEnd) {
  EXPECT_EXIT(inject_and_exit(), testing::ExitedWithCode(0), "");
  EXPECT_EQ(lines(),
            (std::vector<std::string>{"lost\t4", "kernel\t1\t500\t7\t0\tddp::relu(float*, int)",
                                      "kernel\t1001\t1500\t7\t0\tddp::relu(float*, int)",
                                      "kernel\t2001\t2500\t7\t0\tddp::relu(float*, int)",
                                      "copy\t20\t30\t8\t4096\tcopy to the device", "fill\t40\t50\t9\t64\tfill"}));
}

TEST_F(GpuTimeline, EnablesNothingThatHidesKernels) {
  const auto check = [] {
    std::atexit([] {
      const std::vector<CUpti_ActivityKind> expected{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                                     CUPTI_ACTIVITY_KIND_MEMSET};
      if (enabled != expected) _exit(3);
    });
    inject_and_exit();
  };
  EXPECT_EXIT(check(), testing::ExitedWithCode(0), "");
}

TEST_F(GpuTimeline, KeepsTheLastActivities) {
  kernels = kKept + 5;
  EXPECT_EXIT(inject_and_exit(), testing::ExitedWithCode(0), "");
  const auto all = lines();
  ASSERT_EQ(all.size(), kKept + 1);
  const auto has = [&](uint64_t begin) {
    return std::ranges::any_of(
        all, [&](const std::string& line) { return line.starts_with("kernel\t" + std::to_string(begin) + "\t"); });
  };
  EXPECT_FALSE(has(6001));  // the copy and the fill came after the kernels
  EXPECT_TRUE(has(7001));
  EXPECT_TRUE(has(1000 * (kKept + 4) + 1));
  kernels = 3;
}

TEST_F(GpuTimeline, WritesThroughNoLink) {
  std::filesystem::create_symlink(folder_ / "target", folder_ / "lines.2");
  EXPECT_EXIT(inject_and_exit(), testing::ExitedWithCode(0), "gpu_timeline: cannot write .*lines.2: File exists");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "target"));
}

TEST_F(GpuTimeline, AFailureOfCuptiIsSaidAndEndsNothing) {
  result_of_enable = CUPTI_ERROR_UNKNOWN;
  EXPECT_EXIT(inject_and_exit(), testing::ExitedWithCode(0),
              "gpu_timeline: cuptiActivityEnable failed: what CUPTI says");
  result_of_enable = CUPTI_SUCCESS;
  EXPECT_TRUE(lines().empty());
}

TEST_F(GpuTimeline, DoesNothingWithoutAPath) {
  unsetenv("GPU_TIMELINE");
  EXPECT_EXIT(inject_and_exit(), testing::ExitedWithCode(0), "^$");
  EXPECT_TRUE(lines().empty());
}

}  // namespace
