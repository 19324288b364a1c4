// Where the lines of ddp_train predict go: to a stream, or to the new file of --csv, which has its name when it is
// complete.
#pragma once

#include "app/commands/predict/predict_options.h"
#include "core/durable_file.h"
#include "core/log.h"
#include "core/printable.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace ddp {

class PredictionOutput {
 public:
  // Throws Error(Exit::output), also if the file exists.
  PredictionOutput(const PredictOptions& options, std::FILE* out) : path_(options.csv), out_(out) {
    if (!path_.empty()) file_.emplace(path_);
  }

  // Returns false if the reader of the stream has ended.
  bool write(const std::string& lines) {
    if (!file_) return write_output(out_, lines, "the predictions");
    file_->write(lines);
    return true;
  }

  // All lines are there, of `pictures` pictures.
  void end(int64_t pictures, int64_t broken) {
    if (!file_) return;
    NewFile::keep(std::array{&*file_});
    write_output(out_,
                 fmt::format("{}: {} pictures, {} of them without a prediction\n", printable(path_), pictures, broken),
                 "the line about the file");
  }

 private:
  const std::string path_;
  std::FILE* const out_;
  std::optional<NewFile> file_;
};

}  // namespace ddp
