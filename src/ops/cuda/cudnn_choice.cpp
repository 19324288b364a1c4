#include "ops/cuda/cudnn_choice.h"

#include "core/error.h"

#include <algorithm>

namespace ddp::cudnn {

bool Notes::has(cudnnBackendNumericalNote_t note) const {
  return std::find(numerical.begin(), numerical.end(), note) != numerical.end();
}

bool Notes::has(cudnnBackendBehaviorNote_t note) const {
  return std::find(behavior.begin(), behavior.end(), note) != behavior.end();
}

bool admissible(const Notes& notes, const Rules& rules, bool compiling) {
  if (notes.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return false;
  if (rules.precision == Precision::fp32 &&
      (notes.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) || notes.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)))
    return false;
  if (rules.deterministic && notes.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  return compiling || !notes.has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
}

ChoiceWords to_words(const Choice& choice) {
  ChoiceWords words{choice.engine, std::ssize(choice.knobs)};
  DDP_EXPECT(2 + 2 * choice.knobs.size() <= words.size());
  auto word = words.begin() + 2;
  for (const Knob& knob : choice.knobs) {
    *word++ = knob.type;
    *word++ = knob.value;
  }
  return words;
}

Choice from_words(std::span<const int64_t> words) {
  DDP_EXPECT(words.size() == ChoiceWords{}.size() && words[1] >= 0 && words[1] <= kMostKnobs);
  Choice choice{words[0], {}};
  for (int64_t i = 0; i < words[1]; ++i) choice.knobs.push_back({words[2 + 2 * i], words[3 + 2 * i]});
  return choice;
}

std::vector<int64_t> to_list(const Choice& choice) {
  std::vector<int64_t> list{choice.engine};
  for (const Knob& knob : choice.knobs) list.insert(list.end(), {knob.type, knob.value});
  return list;
}

Choice from_list(std::span<const int64_t> list) {
  if (list.size() % 2 == 0 || std::ssize(list) > 1 + 2 * kMostKnobs) return {};
  Choice choice{list[0], {}};
  for (size_t i = 1; i < list.size(); i += 2) choice.knobs.push_back({list[i], list[i + 1]});
  return choice;
}

}  // namespace ddp::cudnn
