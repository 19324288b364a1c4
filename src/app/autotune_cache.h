// What rank 0 chose among algorithms by timing them, in the order of the choices, so that a run that goes on takes the
// same.
#pragma once

#include "comm/communicator.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

class AutotuneCache {
 public:
  // `text`: of an earlier run on the same device with the same libraries, alike on all ranks; empty: there was none.
  explicit AutotuneCache(const std::string& text = "");

  // Every rank's values become those of the earlier run, or of rank 0 where it made no more. Collective.
  void agree(Communicator& host, std::span<int64_t> values);

  std::string text() const;  // of all that was agreed on

 private:
  std::vector<int64_t> earlier_, made_;
};

}  // namespace ddp
