#include "app/commands/predict/continue_texts.h"
#include "app/commands/predict/picture_batches.h"
#include "app/commands/predict/predict.h"
#include "app/commands/predict/prediction_output.h"
#include "app/commands/predict/shared_network.h"
#include "app/machine/threads.h"
#include "app/run/open_job.h"
#include "comm/broadcast_host.h"
#include "health/abort.h"
#include "health/run_on_all_ranks.h"

#include <array>
#include <sstream>
#include <utility>

namespace ddp {
namespace {

// Rank 0's list, on all ranks. No path and no error has a null character.
void share(std::vector<NamedPicture>& pictures, Communicator& world) {
  std::string text;
  for (const NamedPicture& picture : pictures) text += picture.path + '\0' + picture.error + '\0';
  broadcast_host(world, text);
  pictures.clear();
  std::istringstream parts(text);
  for (NamedPicture picture; std::getline(parts, picture.path, '\0') && std::getline(parts, picture.error, '\0');)
    pictures.push_back(picture);
}

class PredictOnRanks {
 public:
  PredictOnRanks(const PredictOptions& options, MpiSession& session, const Signals& signals)
      : options_(options),
        session_(session),
        signals_(signals),
        log_(session.rank()),
        phases_(session.heartbeats()),
        watchdog_(start_watchdog(std::nullopt, session, phases_)),
        world_(session.world(Allreduce::automatic)) {}

  Exit run(std::span<const std::string> arguments, std::istream& list, std::FILE* out) {
    require_same_arguments(arguments, *world_);
    SharedNetwork network = share_trained_network(options_.weights, options_.ema, options_.network, session_, *world_,
                                                  log_, [&](const std::string& line) { log_.warn("{}", line); });
    run_on_all_ranks(session_, [&] {
      require_options_fit_network(options_, network.info);
      require(!network.info.reads_tokens(), Exit::usage,
              "predict continues texts on one rank, not on {}: start it without mpirun", session_.size());
    });
    std::optional<PredictionOutput> output;  // of rank 0
    FoundPictures found;
    run_on_all_ranks(session_, [&] {
      if (session_.rank() != 0) return;
      output.emplace(options_, out);
      found = find_pictures(options_.files, list);
    });
    if (const std::string left_out = found.left_out(); !left_out.empty()) log_.warn("{}", left_out);
    share(found.pictures, *world_);
    const int threads = choose_threads(options_.threads, *world_, session_.host());
    return abort_on_error(session_, [&] { return predict(found, std::move(network), threads, output); });
  }

 private:
  // In rounds: each rank has one batch of a round, in the order of the ranks.
  Exit predict(const FoundPictures& found, SharedNetwork network, int threads,
               std::optional<PredictionOutput>& output) {
    const int64_t pictures = std::ssize(found.pictures), ranks = session_.size();
    if (pictures == 0 && options_.csv.empty()) return Exit::done;  // of an empty list
    std::optional<PictureBatches> batches;
    run_on_all_ranks(session_, [&] {
      if (pictures > 0)
        batches.emplace(options_, network.info, std::move(network.trained), network.weights, found.pictures, threads,
                        session_.local_size());
    });
    const int64_t count = batches ? batches->count() : 0;
    bool is_read =
        !output || output->write(prediction_header(options_.format, classes_in_line(options_, network.info)));
    for (int64_t first = 0; first < count; first += ranks) {
      phases_.enter(Phase::evaluation, 0);
      std::array<double, 2> ends{signals_.stop_requested() ? 1.0 : 0, is_read ? 0 : 1.0};
      world_->all_reduce_host(ends);
      if (ends[0] > 0) return report_stop();
      if (ends[1] > 0) return Exit::done;
      const int64_t mine = first + session_.rank();
      const std::vector<std::string> parts = session_.gather(mine < count ? batches->lines(mine) : "");
      for (const std::string& part : parts) is_read = is_read && (!output || output->write(part));
    }
    phases_.enter(Phase::shutdown, 0);
    std::array<double, 2> sums{};
    if (batches) sums = {static_cast<double>(batches->broken()), static_cast<double>(batches->animated())};
    world_->all_reduce_host(sums);
    const auto [broken, animated] = sums;
    if (animated > 0 && session_.rank() == 0) warn_of_animated(log_, static_cast<int64_t>(animated), pictures);
    if (output) output->end(pictures, static_cast<int64_t>(broken));
    const bool any_broken = broken > 0 || world_->any(!found.unread.empty());
    return any_broken ? Exit::data : Exit::done;
  }

  Exit report_stop() const {
    if (session_.rank() == 0) log_.warn("stopped by a signal before the end: lines are missing");
    return Exit::stopped;
  }

  const PredictOptions& options_;
  MpiSession& session_;
  const Signals& signals_;
  const Log log_;
  PhaseTracker phases_;
  const std::unique_ptr<Watchdog> watchdog_;
  const std::unique_ptr<Communicator> world_;
};

}  // namespace

Exit predict_on_ranks(std::span<const std::string> arguments, std::istream& list, std::FILE* out, MpiSession& session,
                      const Signals& signals) {
  std::optional<std::string> answer;
  const PredictOptions options = run_on_all_ranks(session, [&] { return parse_predict_options(arguments, answer); });
  if (answer) {
    if (session.rank() == 0) write_output(out, *answer, "the output");
    return Exit::done;
  }
  return PredictOnRanks(options, session, signals).run(arguments, list, out);
}

}  // namespace ddp
