// The algorithms that rank 0 chose by timing, in the order of the choices. A resumed run makes the same choices from
// them.
#pragma once

#include "comm/communicator.h"
#include "ops/measuring.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

class AutotuneCache {
 public:
  // `text`: text() of an earlier run on the same device with the same libraries; all ranks give the same. Empty: no
  // earlier run.
  explicit AutotuneCache(const std::string& text = "");

  bool has_more() const { return made_.size() < earlier_.size(); }  // of the earlier run's choices

  // Sets `values` on every rank to the next choices of the earlier run; to rank 0's values once those are used up.
  // Collective.
  void agree(Communicator& host, std::span<int64_t> values);

  // The choices of all ops so far are those of the same ops when they are made again, in the same order.
  void repeat();

  std::string text() const;  // all values agreed on so far

  // What this rank has measured, in order.
  void keep(const MeasuredPass& pass) { passes_.push_back(pass); }
  const std::vector<MeasuredPass>& passes() const { return passes_; }

 private:
  std::vector<int64_t> earlier_, made_;
  std::vector<MeasuredPass> passes_;
};

}  // namespace ddp
