// Execution plans: a graph, an engine and its settings.
#pragma once

#include "ops/cuda/cudnn_choice.h"
#include "ops/cuda/cudnn_graph.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace ddp::cudnn {

// A copy has the same kernel, and operands of its own.
class Plan {
 public:
  // Returns nullopt if the engine, with these settings, does not support the graph.
  static std::optional<Plan> make(const Target& target, const Graph& graph, const Choice& choice);

  const Choice& choice() const { return choice_; }
  const Notes& notes() const { return notes_; }
  int64_t workspace() const { return workspace_; }  // in bytes

  // Issues the work to the stream of the handle, which may be capturing. `pointers` follow the order of graph.operands.
  void run(cudnnHandle_t handle, std::span<void* const> pointers, void* workspace);

 private:
  Plan(Descriptor plan, const Graph& graph, Choice choice, Notes notes);

  Descriptor plan_;
  std::vector<Operand> operands_;
  std::shared_ptr<std::vector<Constant>> constants_;  // variant packs of all copies point to them
  Choice choice_;
  Notes notes_;
  int64_t workspace_;
  std::optional<Descriptor> variant_pack_;
  std::vector<void*> pack_pointers_;  // the pointers in variant_pack_
  void* pack_workspace_ = nullptr;
};

inline constexpr size_t kAll = SIZE_MAX;
// At most `max_count` plans that obey the rules, in the order of the speed that cuDNN expects. Empty if there is none.
std::vector<Plan> find_plans(const Target& target, const Graph& graph, const Rules& rules, size_t max_count = kAll);

// The plan of this choice if it obeys the rules, else the first plan that does. nullopt if there is none.
std::optional<Plan> make_plan(const Target& target, const Graph& graph, const Rules& rules, const Choice& choice);

}  // namespace ddp::cudnn
