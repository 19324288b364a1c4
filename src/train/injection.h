// Faults on purpose, to rehearse what a run does about them. A testing aid.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace ddp {

class Replica;

// What --inject says: rank=3,step=17,kind=hang
struct Injection {
  enum class Kind : uint8_t { kill, hang, slow, nan, bitflip, enospc, exit };
  int rank = 0;
  int64_t step = 1;  // from 1
  Kind kind = Kind::kill;
};

// Rank and step may be left out. Throws Error(Exit::usage) that names what is wrong with the text.
Injection parse_injection(std::string_view text);

// What happens on this rank, and when. Without an injection for this rank nothing does.
class Injector {
 public:
  Injector(const std::optional<Injection>& injection, int rank);

  // Before the step (from 1) asks for its data: kill ends the process with SIGKILL, exit with _exit(0), hang sleeps for
  // ever, slow sleeps 200 ms in this and every later step, bitflip flips a bit of a weight on the device.
  void before_step(int64_t step, Replica& replica) const;
  // Before a bucket's gradients are looked at in the step: nan puts one into them.
  void before_bucket(int64_t step, int bucket, Replica& replica) const;
  bool unrecorded(int64_t step) const;  // the step's work must be issued as it is, not replayed
  // Before a file of a checkpoint is written, of which a folder in its path has the step in its name, such as
  // "step-00001234": enospc throws Error(Exit::output) once, for the first at or after its step. From one thread.
  void before_write(const std::filesystem::path& path);

 private:
  bool is(Injection::Kind kind) const { return injection_ && injection_->kind == kind; }

  std::optional<Injection> injection_;
  bool disk_was_full_ = false;  // of the thread that writes
};

}  // namespace ddp
