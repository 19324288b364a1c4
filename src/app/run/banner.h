// The texts that rank 0 prints before training begins.
#pragma once

#include "app/inputs/load_data.h"
#include "app/machine/factory.h"
#include "app/options/options.h"
#include "comm/mpi/session.h"
#include "train/step/replica.h"
#include "train/trainer.h"

#include <filesystem>
#include <string>

namespace ddp {

// Such as "folder: 900 training and 100 test samples of 5 classes", then the images and the notes.
std::string describe_data(const LoadedData& loaded, const PixelNormalization& pixels);

// The devices and the transport: one line for CPU ranks; for GPUs one line for each rank, then a summary. Collective.
std::string describe_ranks(const Backend& backend, const Communicator& communicator, int threads, MpiSession& session);

// The banner: model, data, buckets, batch, schedule, output folder and remarks. `measured`: whether the buckets are
// planned by measurement. `ranks`: text of describe_ranks().
std::string banner(const Options& options, const Replica& replica, bool measured, const LoadedData& data,
                   const PixelNormalization& pixels, const Samplers& samplers, const std::string& ranks,
                   const std::filesystem::path& folder);

}  // namespace ddp
