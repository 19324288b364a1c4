// Which pictures of a list are no samples of a run: pure decisions.
#pragma once

#include "checkpoint/run_state.h"
#include "data/picture_facts.h"
#include "data/picture_list.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// The facts about a part of the data at the start of a run, or of its resume.
struct PartFacts {
  const PictureList& list;
  const PictureFacts& facts;                        // of the check
  const std::map<int64_t, int64_t>& earlier_sizes;  // files of other sizes than when the run began: those sizes
};

// A new run (`resumed` is null) leaves out the pictures that the check found broken. A resumed run leaves out those
// that it has left out from its start, and excludes those that it had excluded before the step `next`; from that step
// on it excludes those that have broken since. It keeps the first sizes of all that have ever been broken.
PartState excluded_pictures(const PartFacts& part, const PartState* resumed, int64_t next);

// The list's hash with the sizes that excluded and mended pictures had when the run began. A picture that breaks, or is
// mended, does not make other data of the data.
uint64_t hash_at_start(const PartFacts& part, const PartState& state);

// The file of the run's folder that lists the pictures of a part, "training" or "validation".
std::string skipped_file(const std::string& part);

// A line for each of the first `most` pictures that are left out or excluded: "\n  PATH: reason".
std::string left_out_lines(const PartFacts& part, const PartState& state, size_t most);
std::string broken_lines(const std::vector<BrokenPicture>& broken, size_t most);

}  // namespace ddp
