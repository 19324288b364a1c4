#include "report/headline.h"

#include "report/plot.h"
#include "report/table.h"
#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace ddp::report {
namespace {

std::string fact(const RunRecord& run, const std::string& name) {
  return run.processes.empty() ? "" : run.processes.back().fact(name);
}

std::string option(const RunRecord& run, const std::string& name) {
  const auto found = std::ranges::find(run.options, name, &Options::value_type::first);
  return found == run.options.end() ? "" : found->second;
}

// Of the first of these texts that is not empty.
std::string first_of(const std::vector<std::string>& texts) {
  const auto found = std::ranges::find_if(texts, [](const std::string& text) { return !text.empty(); });
  return found == texts.end() ? "–" : short_html(*found);
}

std::string model(const RunRecord& run) {
  return first_of({fact(run, "model"), run.summary ? run.summary->model : "", option(run, "model")});
}
std::string data(const RunRecord& run) {
  const std::string asked = option(run, "dataset");
  return first_of({fact(run, "data"), asked == "auto" ? "" : asked});
}

std::string last_accuracy(const RunRecord& run) {
  return run.evaluations.empty() ? "–" : number(run.evaluations.back().accuracy);
}

std::string last_loss(const RunRecord& run) {
  return run.evaluations.empty() ? "–" : number(run.evaluations.back().loss);
}
std::string last_perplexity(const RunRecord& run) {
  return run.evaluations.empty() ? "–" : number(run.evaluations.back().perplexity);
}

using Judged = double EvalEvent::*;  // the accuracy, of which the largest is the best, or the loss, the smallest

bool is_better(const EvalEvent& a, const EvalEvent& b, Judged judged) {
  return judged == &EvalEvent::loss ? a.*judged < b.*judged : a.*judged > b.*judged;
}
// The first of the best ones; null where no value is known.
const EvalEvent* best_evaluation(const RunRecord& run, Judged judged) {
  const EvalEvent* best = nullptr;
  for (const EvalEvent& eval : run.evaluations)
    if (best ? is_better(eval, *best, judged) : !std::isnan(eval.*judged)) best = &eval;
  return best;
}
std::string text_of(const EvalEvent& eval, Judged judged) {
  return number(eval.*judged) + ", epoch " + number(static_cast<double>(eval.epoch));
}
template <Judged judged>
std::string best(const RunRecord& run) {
  const EvalEvent* const best = best_evaluation(run, judged);
  return best ? text_of(*best, judged) : "–";
}
// Beside the last value: the best one, where that is another, and the value of the average of the weights.
std::string others(const RunRecord& run, Judged judged, double EvalEvent::*of_average) {
  const EvalEvent* const best = best_evaluation(run, judged);
  std::string text;
  if (best && run.evaluations.back().*judged != best->*judged)
    text = fmt::format("<dd class=\"best\">best {}</dd>", text_of(*best, judged));
  if (!run.evaluations.empty() && !std::isnan(run.evaluations.back().*of_average))
    text += fmt::format("<dd class=\"best\">EMA {}</dd>", number(run.evaluations.back().*of_average));
  return text;
}

double samples_per_second(const RunRecord& run) {
  return run.summary ? run.summary->samples_per_second : run.throughput.mean();
}
double tokens_per_second(const RunRecord& run) {
  return run.summary ? run.summary->tokens_per_second : run.token_throughput.mean();
}
std::string seconds_per_epoch(const RunRecord& run) {
  if (run.summary) return number(run.summary->seconds_per_epoch, 3);
  const std::string samples = fact(run, "training_samples");
  if (samples.empty() || samples.size() > 15) return "–";
  return number(std::atof(samples.c_str()) / samples_per_second(run), 3);
}

std::string ranks(const RunRecord& run) {
  const int64_t world = run.world_size();
  if (world == 0) return "–";
  std::string text = number(static_cast<double>(world));
  const std::string device = first_of({fact(run, "device"), run.summary ? run.summary->device : ""});
  if (device != "–") text += " × " + device;
  if (!run.processes.empty()) {
    const auto& hosts = run.processes.back().hosts;
    const size_t distinct = std::set<std::string>(hosts.begin(), hosts.end()).size();
    if (distinct > 1) text += fmt::format(" on {} hosts", distinct);
  }
  return text;
}

std::string progress(const RunRecord& run) {
  if (run.steps == 0) return "no step yet";
  std::string text = number(static_cast<double>(run.steps)) + " steps, epoch " + number(static_cast<double>(run.epoch));
  if (!run.processes.empty() && run.processes.back().epochs > 0)
    text += " of " + number(static_cast<double>(run.processes.back().epochs));
  return text;
}
std::string state(const RunRecord& run) { return run.ended() ? "complete" : "goes on, or was stopped"; }

std::string parts(const RunRecord& run) { return run.speeds.empty() ? "–" : number(slowest_of(run.ranks).total(), 3); }
std::string noise_scale(const RunRecord& run) {
  return run.speeds.empty() ? "–" : number(std::round(run.speeds.back().noise_scale));
}

struct Figure {
  const char* name;
  std::string (*of)(const RunRecord&);
};

std::string samples_text(const RunRecord& run) { return number(samples_per_second(run), 3); }
std::string tokens_text(const RunRecord& run) { return number(tokens_per_second(run), 3); }

std::string tiles(const RunRecord& run) {
  const bool tokens = run.of_tokens();
  std::vector<Figure> figures{{"test accuracy", last_accuracy}, {"test loss", last_loss}, {"samples/s", samples_text}};
  if (tokens)
    figures = {{"test loss", last_loss},
               {"perplexity", last_perplexity},
               {"test accuracy", last_accuracy},
               {"tokens/s", tokens_text},
               {"samples/s", samples_text}};
  figures.insert(figures.end(), {{"s an epoch", seconds_per_epoch}, {"ms a step", parts}, {"ranks", ranks}});
  std::string text = "<dl class=\"tiles\">";
  for (const auto& [name, of] : figures) {
    const bool judged = of == (tokens ? last_loss : last_accuracy);
    const std::string beside = tokens ? others(run, &EvalEvent::loss, &EvalEvent::ema_loss)
                                      : others(run, &EvalEvent::accuracy, &EvalEvent::ema_accuracy);
    text += fmt::format("<div><dt>{}</dt><dd>{}</dd>{}</div>", name, of(run), judged ? beside : "");
  }
  return text + "</dl>\n";
}

std::string comparison(std::span<const RunRecord> runs) {
  const bool tokens = std::ranges::any_of(runs, &RunRecord::of_tokens);
  const auto speed = std::ranges::all_of(runs, &RunRecord::of_tokens) ? tokens_per_second : samples_per_second;
  std::vector<Figure> figures{{"model", model},
                              {"data", data},
                              {"ranks", ranks},
                              {"state", state},
                              {"progress", progress},
                              {"test accuracy", last_accuracy},
                              {"best test accuracy", best<&EvalEvent::accuracy>},
                              {"test loss", last_loss}};
  if (tokens)
    figures.insert(
        figures.end(),
        {{"best test loss", best<&EvalEvent::loss>}, {"perplexity", last_perplexity}, {"tokens/s", tokens_text}});
  figures.insert(figures.end(), {{"samples/s", samples_text},
                                 {"s an epoch", seconds_per_epoch},
                                 {"ms a step", parts},
                                 {"noise scale, samples", noise_scale}});
  std::vector<std::string> heads{""};
  for (size_t r = 0; r < runs.size(); ++r) heads.push_back(name_with_key(runs, r));
  Table table(heads, 1);
  for (const auto& [name, of] : figures) {
    std::vector<std::string> cells{name};
    for (const RunRecord& run : runs) cells.push_back(of(run));
    table.add(cells);
    if (of != samples_text) continue;
    cells = {"times as fast as " + html(runs[0].name)};
    for (const RunRecord& run : runs) cells.push_back(number(speed(run) / speed(runs[0]), 3));
    table.add(cells);
  }
  return table.text();
}

}  // namespace

std::string title_of(std::span<const RunRecord> runs) {
  if (runs.size() > 1) return fmt::format("{} runs", runs.size());
  const std::string on = data(runs[0]);
  return model(runs[0]) + (on == "–" ? "" : " on " + on);
}

std::string name_with_key(std::span<const RunRecord> runs, size_t r) {
  if (runs.size() == 1) return html(runs[r].name);
  return fmt::format("<span class=\"key s{}\"></span>{}", r, html(runs[r].name));
}

std::string headline(std::span<const RunRecord> runs) {
  std::string text;
  if (runs.size() == 1)
    text = fmt::format("<p class=\"sub\">{}: {}; {}</p>\n{}", html(runs[0].name), state(runs[0]), progress(runs[0]),
                       tiles(runs[0]));
  else
    text = comparison(runs);
  for (size_t r = 0; r < runs.size(); ++r) {
    const RunRecord& run = runs[r];
    std::vector<std::string> sentences = run.summary ? run.summary->speed : std::vector<std::string>();
    if (run.summary && !run.summary->early_stop.empty()) sentences.push_back(run.summary->early_stop);
    if (run.skipped > 0)
      sentences.push_back(fmt::format("{} steps were skipped: their gradients were not finite", run.skipped));
    if (run.unread_lines > 0)
      sentences.push_back(fmt::format("{} lines of metrics.jsonl cannot be read", run.unread_lines));
    if (sentences.empty()) continue;
    if (runs.size() > 1) text += fmt::format("<h3>{}</h3>", name_with_key(runs, r));
    text += "<ul class=\"speed\">";
    for (size_t i = 0; i < std::min<size_t>(sentences.size(), 20); ++i)
      text += fmt::format("<li>{}</li>", short_html(sentences[i], 500));
    text += "</ul>\n";
  }
  return text;
}

}  // namespace ddp::report
