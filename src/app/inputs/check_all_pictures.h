// All ranks check the pictures of a data set together.
#pragma once

#include "app/inputs/data_config.h"
#include "app/inputs/reading.h"
#include "comm/mpi/session.h"
#include "core/log.h"
#include "data/picture_facts.h"
#include "data/picture_lists.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace ddp {

// The file with the result of a full check, in the folder of a run. The folder of the data has one too, if it can be
// written; its name is hidden.
inline constexpr const char* kKeptCheck = "checked-pictures";
inline constexpr const char* kKeptCheckOfData = ".ddp_train-checked-pictures";

// Each rank checks a part of the pictures; then every rank has these facts. Memory and messages stay small: besides a
// bounded number of reasons, 5 bytes for each broken picture and 12 for each validation picture. Rank 0 has about 100
// bytes for each picture while it keeps the result of a full check.
struct CheckedPictures {
  PictureFacts train = {}, val = {};  // without content and checked
  int64_t leaks = 0;                  // training pictures that are validation pictures too; full check
  PictureFacts::Pairs leaking = {};   // the first of them: positions in both lists
  // Sizes, by position, that files had when the resumed run began, and have no more; full check.
  std::map<int64_t, int64_t> train_sizes = {}, val_sizes = {};
  int64_t decoded = 0;    // full check: pictures that were decoded; the result of the others was kept
  std::string kept = {};  // rank 0, full check: the content of kKeptCheck
};

// `workers`: threads of each rank. `shown`: how many reasons and leaks a message names. A full check decodes no picture
// whose path, size and time of change are those of an earlier one, which the data or `run_folder` (rank 0: of the
// resumed run; may be empty) have kept; it keeps its own result with the data. Tells `reading` of its progress.
// Collective. Throws CollectiveError as check_pictures() does.
CheckedPictures check_all_pictures(const PictureLists& lists, const DataConfig& config,
                                   const std::filesystem::path& run_folder, int workers, size_t shown,
                                   MpiSession& session, const Log& log, const Reading& reading);

}  // namespace ddp
