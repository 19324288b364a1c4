// The files of the data, listed once on each host.
#pragma once

#include "app/inputs/data_config.h"
#include "app/inputs/reading.h"
#include "comm/mpi/session.h"
#include "data/picture_lists.h"

#include <cstdint>
#include <string>

namespace ddp {

// The first rank of each host lists the files, and the ranks of the host share its list; a rank that cannot map the
// shared memory lists them itself. `kind`: "folder" or "csv". Splits off validation data as --val-split says.
// Collective. Throws CollectiveError: Exit::data where the files cannot be listed or the hosts see different ones;
// Exit::usage for --val-split where there are validation data.
PictureLists share_lists(const DataConfig& config, const std::string& kind, uint64_t seed, MpiSession& session,
                         const Reading& reading);

}  // namespace ddp
