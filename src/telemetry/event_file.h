// An event file that TensorBoard reads: records of event.proto.
#pragma once

#include "telemetry/growing_file.h"

#include <cstdint>
#include <filesystem>
#include <initializer_list>

namespace ddp {

struct Scalar {
  const char* tag;
  double value;
};

class EventFile {
 public:
  // Creates the newest event file of the folder. For TensorBoard, it replaces what the older ones have of the steps
  // from `first_step` on. Throws Error(Exit::output).
  EventFile(const std::filesystem::path& folder, int64_t first_step);

  // TensorBoard cannot show what is not finite: such a value is left out.
  void add(int64_t step, std::initializer_list<Scalar> scalars);
  void flush() { file_.flush(); }
  void close() { file_.close(); }  // as GrowingFile

 private:
  GrowingFile file_;
};

}  // namespace ddp
