#include "telemetry/tensorboard.h"

#include "core/durable_file.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;

fs::path run_folder(const fs::path& folder, const char* run) {
  create_subfolder(folder);
  create_subfolder(folder / run);
  return folder / run;
}

}  // namespace

TensorBoard::TensorBoard(const TensorBoardConfig& config)
    : train_(run_folder(config.folder, "train"), config.done + 1),
      test_(run_folder(config.folder, "test"), config.done + (config.evaluation_due ? 0 : 1)) {}

void TensorBoard::step(const StepResult& r) {
  train_.add(r.step, {{"loss", r.loss},
                      {"learning_rate", r.lr},
                      {"samples_per_second", r.samples_per_second()},
                      {"step_ms/data", r.times.data},
                      {"step_ms/compute", r.times.compute},
                      {"step_ms/exposed_communication", r.times.exposed_comm}});
  if (r.sequence_length > 0) train_.add(r.step, {{"tokens_per_second", r.tokens_per_second()}});
}

void TensorBoard::evaluation(int64_t, int64_t step, const Evaluation& e, double) {
  test_.add(step, {{"loss", e.loss}, {"accuracy", e.accuracy()}});
  if (e.of_tokens()) test_.add(step, {{"perplexity", e.perplexity()}});
  flush();
}

void TensorBoard::speed(int64_t, int64_t step, const StepSpeed& speed) {
  if (speed.ranks.size() > 1)
    train_.add(step, {{"speed/communication_ms", speed.communication},
                      {"speed/hidden_communication", speed.hidden()},
                      {"speed/imbalance", speed.imbalance()}});
  if (speed.noise_scale) train_.add(step, {{"noise_scale", *speed.noise_scale}});
  flush();
}

void TensorBoard::flush() {
  train_.flush();
  test_.flush();
}

void TensorBoard::close(bool) {
  train_.close();
  test_.close();
}

}  // namespace ddp
