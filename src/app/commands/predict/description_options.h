// The options that describe the network of weights without metadata, for the commands that use a trained network.
#pragma once

#include "app/inputs/model_info.h"

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ddp {

// What the options say: those that were given, and those that are missing ("--model") for a network that reads images.
// `info` has the model; without missing ones, all of that network.
struct DescribedNetwork {
  ModelInfo info;
  std::vector<std::string> given, missing;
  int64_t sequence_length = 0, vocabulary_size = 0;  // of a network that reads tokens; 0: not given
};

class DescriptionOptions {
 public:
  struct Description {
    std::string model, mean, class_names;
    std::vector<double> std;
    int64_t classes = 0, resize = 0, crop = 0;
    int channels = 0;
    int64_t sequence_length = 0, vocabulary_size = 0;
  };

  void declare(CLI::App& app);  // this object outlives the parsing
  // After the parsing. Reads the file of --class-names. Throws Error: Exit::usage, and Exit::data for that file.
  DescribedNetwork read(const CLI::App& app) const;

 private:
  Description given_;
};

}  // namespace ddp
