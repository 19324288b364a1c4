// The vocabulary of a trained network. A run keeps that of its training in its folder.
#pragma once

#include "app/inputs/load_data.h"
#include "app/inputs/model_info.h"
#include "data/text/vocabulary.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ddp {

inline constexpr const char* kVocabularyFile = "vocabulary.txt";

// `given`: a file or "bytes", as --vocabulary; empty: vocabulary.txt in the folder of `weights`, or of a checkpoint
// in that of its run. Throws Error: Exit::usage where there is none, Exit::data for a broken file, or
// for a vocabulary of another size or hash than the network's.
Vocabulary vocabulary_of_run(const ModelInfo& info, const std::filesystem::path& weights, const std::string& given);

// Of the text of vocabulary.txt in the listings; none: the data are images, or tokens without a vocabulary.
std::optional<uint64_t> vocabulary_hash(const LoadedData& data);

}  // namespace ddp
