// Plans: a graph, an engine and its settings, ready to run.
#pragma once

#include "ops/cuda/cudnn_choice.h"
#include "ops/cuda/cudnn_graph.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ddp::cudnn {

class Plan {
 public:
  // Nothing where this engine, so set, does not support this graph.
  static std::optional<Plan> make(const Target& target, const Graph& graph, const Choice& choice);

  const Choice& choice() const { return choice_; }
  const Notes& notes() const { return notes_; }
  int64_t workspace() const { return workspace_; }  // bytes

  // Issues the work to the handle's stream; it may be captured. Pointers in the order of the graph's operands.
  void run(cudnnHandle_t handle, std::span<void* const> pointers, void* workspace);

 private:
  Plan(Descriptor plan, const Graph& graph, Choice choice, Notes notes);

  Descriptor plan_;
  std::vector<Operand> operands_;
  Choice choice_;
  Notes notes_;
  int64_t workspace_;
  std::optional<Descriptor> variant_pack_;
  std::vector<void*> pack_pointers_;  // what variant_pack_ was made for
  void* pack_workspace_ = nullptr;
};

// The first `most` plans that keep the rules, the one that cuDNN expects to be fastest first. Empty: there is none.
std::vector<Plan> find_plans(const Target& target, const Graph& graph, const Rules& rules, size_t max_count);

// How many of them are worth timing. The first three can all be plans without tensor cores where the fourth has them.
inline constexpr size_t kTimed = 6;

// The plan of this choice; where there is none that keeps the rules, the first that does. Nothing: there is none.
std::optional<Plan> make_plan(const Target& target, const Graph& graph, const Rules& rules, const Choice& choice);

}  // namespace ddp::cudnn
