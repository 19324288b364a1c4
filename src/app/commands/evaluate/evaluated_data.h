// The data that a trained network is evaluated on.
#pragma once

#include "app/inputs/load_data.h"
#include "app/inputs/model_info.h"
#include "app/inputs/reading.h"
#include "comm/communicator.h"
#include "comm/mpi/session.h"
#include "core/log.h"
#include "data/dataset.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddp {

struct EvaluatedData {
  std::unique_ptr<Dataset> data;  // its labels are the network's
  std::string kind;               // --dataset, never "auto"
  int workers = 1;
  std::vector<std::string> notes;
  std::map<std::string, std::string> listings;  // as those of LoadedData
  std::unique_ptr<Exclusions> exclusions;       // with --on-error skip; null: a picture that cannot be read is an error
};

// The label of the network for each class of the data, by name in Unicode normal form C; -1 for a class without
// samples. `names`: of the classes of the data; empty: they have numbers only. Throws Error(Exit::data) that names the
// classes that the network lacks, and ends with `meant`.
std::vector<int32_t> labels_of_network(const Dataset& data, const std::vector<std::string>& names,
                                       const ModelInfo& network, const std::string& meant);

// Opens and checks the validation part of the data, with the network's own sizes and transform. Collective. Throws
// CollectiveError as load_data() does; Exit::model for samples of a kind, or images of a size, that the network does
// not read; Exit::data for classes that it lacks, and for tokens of another vocabulary.
EvaluatedData load_evaluated_data(const DataConfig& config, uint64_t seed, const ModelInfo& network,
                                  MpiSession& session, Communicator& world, const Log& log, const Reading& reading);

}  // namespace ddp
