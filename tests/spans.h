// Records spans for a test to look at.
#pragma once

#include "core/span_recorder.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::testing {

class RecordedSpans final : public SpanRecorder {
 public:
  bool on() const noexcept override { return wanted; }
  void record(const Span& span) noexcept override {
    const std::lock_guard lock(mutex_);
    all_.push_back(span);
    all_.back().name = names_.insert(span.name).first->c_str();
  }

  std::vector<Span> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  std::vector<Span> of(Track track) const {
    std::vector<Span> spans = all();
    std::erase_if(spans, [&](const Span& span) { return span.track != track; });
    return spans;
  }
  std::vector<Span> named(std::string_view name) const {
    std::vector<Span> spans = all();
    std::erase_if(spans, [&](const Span& span) { return span.name != name; });
    return spans;
  }

  std::atomic<bool> wanted = true;

 private:
  mutable std::mutex mutex_;
  std::vector<Span> all_;
  std::set<std::string> names_;  // a test looks at the spans after the end of the run
};

inline bool inside(const Span& inner, const Span& outer) {
  return outer.begin_ns <= inner.begin_ns && inner.begin_ns <= inner.end_ns && inner.end_ns <= outer.end_ns;
}

}  // namespace ddp::testing
