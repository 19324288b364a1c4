#include "ops/cuda/cudnn_plan.h"

#include "core/error.h"

#include <algorithm>
#include <utility>

namespace ddp::cudnn {
namespace {

struct Candidate {
  Choice choice;
  Notes notes;
};

Notes notes_of(const Descriptor& engine) {
  return {engine.list<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT),
          engine.list<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT)};
}

Candidate candidate(const Descriptor& config) {
  const Descriptor engine = config.parts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1).at(0);
  Candidate found{{engine.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), {}}, notes_of(engine)};
  constexpr int64_t kMore = 128;  // than a newer cuDNN has
  static_assert(kMore > kMostKnobs);
  for (const Descriptor& knob :
       config.parts(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, kMore))
    found.choice.knobs.push_back({knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE),
                                  knob.get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)});
  return found;
}

// Candidates in the order of the speed that cuDNN expects.
std::vector<Candidate> candidates(const Target& target, const Graph& graph, cudnnBackendHeurMode_t mode) {
  const int64_t max_count = 64;
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.descriptor).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.description()) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.description());
  std::vector<Candidate> found;
  if (!heuristics.try_finalize()) return found;
  for (const Descriptor& config :
       heuristics.parts(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, max_count))
    found.push_back(candidate(config));
  return found;
}

}  // namespace

std::optional<Plan> Plan::make(const Target& target, const Graph& graph, const Choice& choice) {
  if (choice.none()) return std::nullopt;
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.descriptor).set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine);
  if (target.description()) engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *target.description());
  if (!engine.try_finalize()) return std::nullopt;

  std::vector<Descriptor> knobs;
  for (const Knob& knob : choice.knobs) {
    Descriptor k(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    k.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(knob.type))
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, knob.value);
    if (!k.try_finalize()) return std::nullopt;
    knobs.push_back(std::move(k));
  }
  Descriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!knobs.empty()) config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, std::span<const Descriptor>(knobs));
  if (!config.try_finalize()) return std::nullopt;

  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (target.handle()) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle());
  if (target.description()) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.description());
  if (!plan.try_finalize()) return std::nullopt;
  return Plan(std::move(plan), graph, choice, notes_of(engine));
}

Plan::Plan(Descriptor plan, const Graph& graph, Choice choice, Notes notes)
    : plan_(std::move(plan)),
      operands_(graph.operands),
      constants_(std::make_shared<std::vector<Constant>>(graph.constants)),
      choice_(std::move(choice)),
      notes_(std::move(notes)),
      workspace_(plan_.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)) {}

// A finalized variant pack cannot change. Steps pass the same pointers every time, so the plan keeps the last pack.
void Plan::run(cudnnHandle_t handle, std::span<void* const> pointers, void* workspace) {
  DDP_EXPECT(pointers.size() == operands_.size());
  if (!variant_pack_ || workspace != pack_workspace_ || !std::ranges::equal(pointers, pack_pointers_)) {
    std::vector<int64_t> ids;
    for (const Operand operand : operands_) ids.push_back(static_cast<int64_t>(operand));
    for (void* p : pointers) DDP_EXPECT(p && reinterpret_cast<uintptr_t>(p) % kAlignment == 0);
    std::vector<void*> all(pointers.begin(), pointers.end());
    for (Constant& constant : *constants_) {
      ids.push_back(constant.id);
      all.push_back(&constant.value);
    }
    variant_pack_ = Descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
                        .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(ids))
                        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span<void* const>(all))
                        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
                        .finalize();
    pack_pointers_.assign(pointers.begin(), pointers.end());
    pack_workspace_ = workspace;
  }
  DDP_CUDNN(cudnnBackendExecute(handle, plan_.raw(), variant_pack_->raw()));
}

// Engines that cuDNN recommends come first, then the others, then those that compile, if there are no others.
std::vector<Plan> find_plans(const Target& target, const Graph& graph, const Rules& rules, size_t max_count) {
  std::vector<Plan> plans;
  for (const bool compiling : {false, true}) {
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
      for (const Candidate& c : candidates(target, graph, mode)) {
        if (plans.size() == max_count) return plans;
        const bool known = std::ranges::any_of(plans, [&](const Plan& plan) { return plan.choice() == c.choice; });
        const bool too_many = std::ssize(c.choice.knobs) > kMostKnobs;
        if (known || too_many || !admissible(c.notes, rules, compiling)) continue;
        std::optional<Plan> plan = Plan::make(target, graph, c.choice);
        if (plan && plan->workspace() <= rules.workspace) plans.push_back(std::move(*plan));
      }
    if (!plans.empty()) return plans;
  }
  return plans;
}

std::optional<Plan> make_plan(const Target& target, const Graph& graph, const Rules& rules, const Choice& choice) {
  std::optional<Plan> plan = Plan::make(target, graph, choice);
  if (plan && plan->workspace() <= rules.workspace && admissible(plan->notes(), rules, true)) return plan;
  std::vector<Plan> found = find_plans(target, graph, rules, 1);
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

}  // namespace ddp::cudnn
