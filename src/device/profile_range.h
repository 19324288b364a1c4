// A named stretch of issued work, for profilers that show where time goes. Inside
// recorded work it shows when that is issued or captured, not when it is replayed.
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
