// A named range of issued work for profilers. Inside the work of a GraphCache, the profiler shows the range when the
// work is issued or captured, not when its graph is launched.
#pragma once

#include "device/device.h"

namespace ddp {

class ProfileRange {
 public:
  ProfileRange(Device& device, const char* name) : device_(device) { device_.begin_range(name); }
  ~ProfileRange() { device_.end_range(); }
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

 private:
  Device& device_;
};

}  // namespace ddp
