#include "report/csv.h"

#include "core/csv_field.h"
#include "core/printable.h"
#include "report/events.h"

#include <fmt/format.h>

#include <cmath>

namespace ddp::report {
namespace {

struct Row {
  const char* kind;
  int64_t step, epoch;
  int64_t rank = 0;
  double loss = kUnknown, accuracy = kUnknown, lr = kUnknown, samples = kUnknown;
  Parts times = {};
  double communication = kUnknown, noise_scale = kUnknown, seconds = kUnknown;
  std::string skipped = {};
};

// As exact as metrics.jsonl.
std::string field(double value) { return std::isfinite(value) ? fmt::format(",{}", value) : ","; }

class Rows {
 public:
  explicit Rows(const std::string& name) : name_(csv_field(printable(name))) {}

  void operator()(const StepEvent& e) {
    add({.kind = "step",
         .step = e.step,
         .epoch = e.epoch,
         .loss = e.loss,
         .lr = e.lr,
         .samples = e.samples,
         .times = e.times,
         .skipped = e.skipped});
  }
  void operator()(const EvalEvent& e) {
    add({.kind = "eval",
         .step = e.step,
         .epoch = e.epoch,
         .loss = e.loss,
         .accuracy = e.accuracy,
         .samples = e.samples,
         .seconds = e.seconds});
  }
  void operator()(const SpeedEvent& e) {
    for (size_t rank = 0; rank < e.ranks.size(); ++rank)
      add({.kind = "speed",
           .step = e.step,
           .epoch = e.epoch,
           .rank = static_cast<int64_t>(rank),
           .times = e.ranks[rank],
           .communication = e.communication,
           .noise_scale = e.noise_scale});
  }
  void operator()(const RunEvent&) {}
  void operator()(const TimelineEvent&) {}

  std::string text;

 private:
  void add(const Row& row) {
    text += fmt::format("{},{},{},{},{}", name_, row.kind, row.step, row.epoch, row.rank);
    for (const double value : {row.loss, row.accuracy, row.lr, row.samples, row.times.data, row.times.compute,
                               row.times.exposed_comm, row.communication, row.noise_scale, row.seconds})
      text += field(value);
    text += "," + csv_field(printable(row.skipped)) + "\n";
  }

  const std::string name_;
};

}  // namespace

std::string csv_header() {
  return "run,kind,step,epoch,rank,loss,accuracy,lr,samples,data_ms,compute_ms,exposed_comm_ms,communication_ms,"
         "noise_scale,seconds,skipped\n";
}

bool write_csv(const std::filesystem::path& folder, const std::string& name,
               const std::function<bool(const std::string&)>& write) {
  constexpr size_t kPart = 1 << 16;
  Rows rows(name);
  bool goes_on = true;
  read_events(folder / "metrics.jsonl", [&](Event&& event) {
    if (!goes_on) return;
    std::visit(rows, event);
    if (rows.text.size() < kPart) return;
    goes_on = write(rows.text);
    rows.text.clear();
  });
  return goes_on && write(rows.text);
}

}  // namespace ddp::report
