// The results of earlier full checks: those that the data's folder has kept, and those of the run that is resumed.
#pragma once

#include "comm/mpi/session.h"
#include "data/kept_check.h"
#include "data/picture_facts.h"
#include "data/picture_list.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ddp {

// On rank 0; empty on the others.
struct KeptChecks {
  KeptCheck of_data, of_run;
  std::vector<CheckedPicture> current = {};  // of this check, by path
};

// Reads the files of both folders. A file that is missing, broken or of another check is as good as none.
KeptChecks read_kept_checks(const std::filesystem::path& data, const std::filesystem::path& run_folder, bool exif);

// What is known of a list of pictures.
struct KeptPart {
  std::vector<int64_t> unknown = {};              // positions to check, the same on all ranks; ascending
  PictureFacts facts = {};                        // rank 0: of the others
  std::map<int64_t, int64_t> earlier_sizes = {};  // files of other sizes than in the resumed run, and their sizes there
};

// Rank 0 tells all ranks what it knows. A picture that needs more than `limit` bytes of memory counts as unknown.
// Collective.
KeptPart share_kept(KeptChecks& kept, const PictureList& list, int64_t limit, MpiSession& session);

// Rank 0 adds the pictures that the ranks have checked. Collective.
void add_checked(KeptChecks& kept, const PictureList& list, std::vector<CheckedPicture> mine, MpiSession& session);

// Rank 0: writes the file beside the data if `changed` and the folder can be written, and returns the content of the
// run's file: of a resumed run what it had found at its start.
std::string keep(const KeptChecks& kept, const std::filesystem::path& data, bool changed, bool exif);

}  // namespace ddp
