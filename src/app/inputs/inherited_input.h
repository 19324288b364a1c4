// What a run that begins with the weights of a file (--init-from) takes over from the metadata of the file, and how the
// classes of the file compare with those of the data.
#pragma once

#include "app/inputs/model_info.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace ddp {

// Values of options by name, such as "--mean" -> "0.485,0.456,0.406", that make the input of the file's network. Mean
// and standard deviation have the file's bits as scale and shift. An option of `given` stays as it is: one of --mean
// and --std keeps both, one of the sizes or --train-transform keeps all sizes. `pictures`: whether the data are
// pictures in files; other images have no sizes. `file`: in messages. Throws Error(Exit::data) for values that no
// pixels have.
std::map<std::string, std::string> inherited_input(const ModelInfo& info, bool pictures,
                                                   const std::map<std::string, std::string>& given,
                                                   const std::string& file);

// Compares the classes of a file whose last layer is kept with the names of the data's classes. Equal names must have
// equal numbers, and the data must have one of the file's names at least: else throws Error(Exit::model). Returns a
// warning where some names differ, else "". Without names on either side, or with other numbers of classes, "".
std::string compare_classes(const ModelInfo& info, std::span<const std::string> names, const std::string& file);

// Returns a warning where the network's vocabulary is another one than that of the run, which has this hash, else "".
std::string compare_vocabularies(const ModelInfo& info, std::optional<uint64_t> hash, const std::string& file);

}  // namespace ddp
