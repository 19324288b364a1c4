#include "app/commands/predict/continue_texts.h"

#include "app/commands/predict/next_token.h"
#include "app/inputs/vocabulary_of_run.h"
#include "app/machine/cores.h"
#include "core/printable.h"
#include "core/printable_text.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

class TextWriter {
 public:
  TextWriter(const PredictOptions& options, const Vocabulary& vocabulary, NextToken& next, std::FILE* out,
             const Log& log)
      : options_(options), vocabulary_(vocabulary), next_(next), out_(out), log_(log) {}

  // Returns false if the reader of the stream has ended.
  bool add(const std::string& prompt) {
    const bool as_json = options_.format == PredictionFormat::jsonl;
    std::string shown = printable_text(prompt), bytes;  // bytes: of the continuation; as text, those not yet written
    if (!as_json && !write((texts_ > 0 ? "\n" : "") + shown)) return false;
    std::vector<int32_t> tokens;
    const bool is_read = continuation(prompt, [&](int32_t token) {
      tokens.push_back(token);
      bytes += vocabulary_.decode(std::span(&token, 1));
      return as_json || write_characters(bytes);
    });
    ++texts_;
    if (!is_read) return false;
    if (!as_json) return write(printable_text(bytes) + "\n");
    const nlohmann::ordered_json line{{"prompt", prompt}, {"text", bytes}, {"tokens", tokens}};
    return write(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }

 private:
  bool write(const std::string& text) { return write_output(out_, text, "the text"); }

  bool write_characters(std::string& bytes) {
    const std::string whole = bytes.substr(0, bytes_of_whole_characters(bytes));
    bytes.erase(0, whole.size());
    return whole.empty() || write(printable_text(whole));
  }

  // Calls add(token) for each token of the continuation, until it returns false: then it returns false.
  bool continuation(const std::string& prompt, const std::function<bool(int32_t)>& add) {
    std::vector<int32_t> text = vocabulary_.encode(prompt);
    if (text.empty()) text.push_back(vocabulary_.end_of_text());
    if (std::cmp_greater(text.size(), next_.longest()) && !std::exchange(warned_, true))
      log_.warn("a prompt has {} tokens, and the network reads {}: the last {} are read", text.size(), next_.longest(),
                next_.longest());
    for (int64_t i = 0; i < options_.most_tokens; ++i) {
      const std::span<const float> logits = next_.logits(text);
      require(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }), Exit::numerics,
              "the network computes NaN or infinity");
      const int32_t token = draw_token(logits, options_.draw, number_of_draw(options_.draw.seed, texts_, i));
      if (token == vocabulary_.end_of_text()) break;
      text.push_back(token);
      if (!add(token)) return false;
    }
    return true;
  }

  const PredictOptions& options_;
  const Vocabulary& vocabulary_;
  NextToken& next_;
  std::FILE* const out_;
  const Log& log_;
  int64_t texts_ = 0;  // that are complete
  bool warned_ = false;
};

}  // namespace

void require_options_fit_network(const PredictOptions& options, const ModelInfo& info) {
  const bool tokens = info.reads_tokens();
  const std::vector<std::string>& wrong = tokens ? options.of_pictures : options.of_texts;
  require(wrong.empty(), Exit::usage, "{} is for a network that reads {}, and {} reads {}: leave it out",
          fmt::join(wrong, ", "), tokens ? "pictures" : "text", info.model, tokens ? "text" : "pictures");
}

Exit continue_texts(const PredictOptions& options, const ModelInfo& info, const std::filesystem::path& weights,
                    std::istream& list, std::FILE* out, const Log& log) {
  const Vocabulary vocabulary = vocabulary_of_run(info, weights, options.vocabulary);
  const int cores = cores_within_limit(static_cast<int>(cores_of_process().size()), cpu_limit_of_container());
  TrainedNetwork trained = read_trained_network(info, weights, [&](const std::string& line) { log.warn("{}", line); });
  NextToken next(info, std::move(trained), share_of_cores(options.threads, cores, 1), printable(weights.native()));
  TextWriter writer(options, vocabulary, next, out, log);
  for (const std::string& name : options.files) {
    if (name != "-") {
      if (!writer.add(name)) return Exit::done;
      continue;
    }
    for (std::string line; std::getline(list, line);)
      if (!writer.add(line)) return Exit::done;
  }
  return Exit::done;
}

}  // namespace ddp
