#include "app/commands/lr_find/lr_find.h"

#include "app/commands/lr_find/lr_find_options.h"
#include "app/commands/report/page_info.h"
#include "app/inputs/reading.h"
#include "app/options/parameter_groups.h"
#include "app/run/banner.h"
#include "app/run/begin_from.h"
#include "app/run/open_job.h"
#include "app/run/plan_run.h"
#include "app/run/resume_point.h"
#include "core/durable_file.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "health/abort.h"
#include "health/run_on_all_ranks.h"
#include "report/lr_page.h"
#include "train/range_test/range_test.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;

// Refuses a page that has no folder, and to replace what is no page of this program.
void require_own_page(const fs::path& file) {
  std::error_code ignored;
  const fs::path folder = file.parent_path();
  require(folder.empty() || fs::is_directory(folder, ignored), Exit::output,
          "--output: there is no folder {}; create it", printable(folder.native()));
  require_replaceable(file, "--output");
  if (!fs::exists(file, ignored)) return;
  std::string head(512, '\0');
  FileStream(file).read(head.data(), static_cast<std::streamsize>(head.size()));
  require(head.find(report::kMarkOfPages) != head.npos, Exit::output,
          "{} exists and is no page of ddp_train; choose another --output", printable(file.native()));
}

RangeTest run_test(const LrRange& range, const Job& job, const PlannedRun& run, const Signals& signals) {
  Replica& replica = *run.replica;
  RangeTestConfig config{.range = range,
                         .step = {.micro_batches = job.options.train.step.micro_batches,
                                  .request = [&] { return signals.stop_requested() ? Request::stop : Request::none; }},
                         .data = placement_for(job.options, job.data.workers, job.log),
                         .on_error = [&] { report_before_unwinding(job.session); }};
  if (job.data.excludes) config.data.exclusions = job.data.train_exclusions.get();
  return abort_on_error(job.session, [&] {
    const auto monitoring = monitor_steps(job, replica);
    return test_lr_range(config, replica, *job.data.data.train, job.samplers.train, job.phases);
  });
}

// What to give a run: --lr is multiplied by --lr-scale. The rates of groups have kept their ratios to --lr.
std::string as_options(const Options& run, double rate) {
  const RateScaling& scaling = run.lr_scaling;
  const auto rounded = [](double value) { return std::stod(fmt::format("{:.2g}", value)); };
  const double lr = rounded(rate / scaled_lr(1, scaling.kind, run.batch.size, scaling.base_batch));
  std::string text = fmt::format("--lr {:g}", lr);
  std::vector<ParameterGroup> groups = run.replica.groups;
  for (ParameterGroup& group : groups)
    if (group.lr) group.lr = rounded(lr * group.rate);
  if (std::ranges::any_of(groups, [](const ParameterGroup& group) { return group.lr.has_value(); }))
    text += fmt::format(" --group '{}'", text_of_groups(groups));
  if (run.head.lr) text += fmt::format(" --head-lr {:g}", rounded(lr * run.head.rate));
  return text;
}

std::vector<std::string> result_of(const LrRange& range, const Job& job, const RangeTest& test,
                                   const std::optional<LrSuggestion>& found) {
  const auto& points = test.curve.points();
  std::vector<std::string> lines;
  if (test.end.empty())
    lines.push_back(fmt::format("{} steps, learning rates from {:.3g} to {:.3g}", points.size(), range.from, range.to));
  else
    lines.push_back(fmt::format("{} of {} steps, learning rates from {:.3g} to {:.3g}; then {}", points.size(),
                                range.steps, range.from, points.empty() ? range.from : points.back().lr, test.end));
  if (!found) {
    const bool tokens = job.data.data.train->sequence_length() > 0;
    lines.push_back(
        fmt::format("no suggestion: the smoothed loss never falls by more than its noise; give more --steps, another "
                    "--from and --to, or a larger --batch-size{}",
                    tokens ? "" : ", and look at the pictures with ddp_train show"));
    return lines;
  }
  lines.push_back(fmt::format("steepest descent at {:.3g}; least smoothed loss at {:.3g}, a tenth of it {:.3g}",
                              found->steepest, found->tenth * 10, found->tenth));
  if (found->at_end) lines.push_back("the loss still falls at the last rate: give a larger --to");
  lines.push_back(fmt::format("suggestion: {}, the lower one of the two", as_options(job.options, found->lr)));
  return lines;
}

std::string page_of(const Job& job, const RangeTest& test, const std::optional<LrSuggestion>& found,
                    std::vector<std::string> lines) {
  report::LrRecord record{.subject = fmt::format("{} on {}", job.options.network.source.name, job.data.kind),
                          .lines = std::move(lines),
                          .steps = {}};
  for (const LrPoint& point : test.curve.points()) record.steps.push_back({point.lr, point.loss, point.smoothed});
  if (found) {
    record.suggested = found->lr;
    record.steepest = found->steepest;
    record.tenth = found->tenth;
  }
  return report::lr_page(record, page_info());
}

}  // namespace

Exit lr_find(std::span<const std::string> arguments, MpiSession& session, const Signals& signals, const Log& log) {
  std::optional<std::string> answer;
  const LrFindOptions options = run_on_all_ranks(session, [&] {
    LrFindOptions parsed = parse_lr_find_options(arguments, answer);
    if (!answer && session.rank() == 0) require_own_page(parsed.output);
    return parsed;
  });
  if (answer) {
    if (session.rank() == 0) write_output(stdout, *answer, "the output");
    return Exit::done;
  }
  PhaseTracker phases(session.heartbeats());
  Options training = [&] {
    const auto watchdog = start_watchdog(options.training.step_timeout, session, phases);
    return with_inherited_input(options.training, session, log);
  }();
  const LrRange& range = options.range;  // the ranks compare this text
  training.effective_config += fmt::format("# lr-find: {} {} {}\n", range.steps, range.from, range.to);
  Job job = open_job(training, {}, session, phases, log);
  const PlannedRun run = plan_run(job, {});
  restore_or_initialize(job, {}, {}, *run.replica);
  run.replica->check_replicas();
  log.info("{}, global batch {}, {}", job.options.network.source.name, job.options.batch.size,
           describe_data(job.data, run.pixels));
  const RangeTest test = run_test(range, job, run, signals);
  if (test.stopped) {
    const char* const signal = signals.stop_signal();
    if (session.rank() == 0)
      log.warn("{}: lr-find stops and writes nothing", signal ? signal : "a stop of another rank");
    return Exit::stopped;
  }
  const auto found = suggest_lr(test.curve.points(), range.steps);
  const std::vector<std::string> lines = result_of(range, job, test, found);
  for (const std::string& line : lines) log.info("{}", line);
  run_on_all_ranks(session, [&] {
    if (session.rank() == 0) replace_file(options.output, page_of(job, test, found, lines), false);
  });
  log.info("{}", printable(options.output.native()));
  return Exit::done;
}

}  // namespace ddp
