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

namespace ddp {

// Each rank checks a part of the pictures; then every rank has these facts. Memory and messages stay small: besides a
// bounded number of reasons, 5 bytes for each broken picture and 12 for each validation picture.
struct CheckedPictures {
  PictureFacts train = {}, val = {};  // without content
  int64_t leaks = 0;                  // training pictures that are validation pictures too; --check-data full
  PictureFacts::Pairs leaking = {};   // the first of them: positions in both lists
};

// `workers`: threads of each rank. `shown`: how many reasons and leaks a message names. Tells `reading` of its
// progress. Collective. Throws CollectiveError as check_pictures() does.
CheckedPictures check_all_pictures(const PictureLists& lists, const DataConfig& config, int workers, size_t shown,
                                   MpiSession& session, const Log& log, const Reading& reading);

}  // namespace ddp
