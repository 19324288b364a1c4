// saves FOLDER: makes a run's folder in FOLDER and writes into it all that must survive a power cut. Prints a line
// after each thing that is then safe; powercut_test.cpp knows what they mean.
#include "tests/system/powercut/saves.h"

#include "checkpoint/safetensors.h"
#include "checkpoint/writer.h"
#include "core/durable_file.h"

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace ddp {
namespace {

void print(const std::string& line) { std::fwrite((line + "\n").data(), 1, line.size() + 1, stdout); }

void save(CheckpointWriter& writer, int64_t step, int64_t generation, bool best) {
  const Snapshot snapshot = saved_snapshot(step, generation);
  writer.save(snapshot.view(), best);
  writer.finish();
  if (const std::string error = writer.outcomes().at(0).error; !error.empty()) throw std::runtime_error(error);
  print(fmt::format("saved {}", generation));
  if (best) print(fmt::format("best {}", generation));
}

void save_all(const fs::path& run) {
  create_durable_folders(run);
  const Weights weights = few_weights();
  CheckpointWriter writer({.folder = checkpoints_of(run), .keep_last = 2}, weights.tensors());
  save(writer, 1, 1, true);
  save(writer, 2, 2, false);
  save(writer, 2, 3, true);  // replaces step 2
  save(writer, 3, 4, false);
  save(writer, 4, 5, false);

  // A process is killed while it deletes a checkpoint, and the next one cleans up.
  const fs::path folder = checkpoints_of(run), older = list_checkpoints(folder).at(1);
  fs::rename(older, folder / temporary_name(older.filename()));
  remove_leftovers(folder);

  for (const char* generation : {"1", "2"}) {
    write_safetensors(run / kExport, {{.name = generation, .shape = {}, .integer = 0}});
    print(fmt::format("exported {}", generation));
  }
  std::array<NewFile, 2> files = {NewFile(run / kNewFiles[0]), NewFile(run / kNewFiles[1])};
  for (NewFile& file : files) file.write(kNewContent);
  NewFile::keep(std::array{&files[0], &files[1]});
  print("kept 1");
}

}  // namespace
}  // namespace ddp

int main(int, char** argv) { ddp::save_all(ddp::fs::path(argv[1]) / ddp::kRun); }
