// Pictures in files as the data of a run: listed, checked and described.
#pragma once

#include "app/inputs/load_data.h"

namespace ddp {

// One rank of each host lists the files; the ranks of the host share its list. All ranks check a part of the pictures
// each. `kind`: "folder" or "csv". Collective. Throws as load_data() does.
LoadedData load_pictures(const DataConfig& config, const std::string& kind, uint64_t seed, MpiSession& session,
                         Communicator& world, const Log& log, const Reading& reading, const ResumedPictures& resumed);

}  // namespace ddp
