#include "comm/collective.h"

#include <fmt/format.h>

namespace ddp {

bool same_on_all_ranks(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.span.count == b.span.count && a.span.dtype == b.span.dtype && a.root == b.root &&
         !a.span.residual == !b.span.residual;
}

std::string describe(const Collective& collective) {
  const auto& [kind, span, root] = collective;
  const char* const type = span.residual ? "f32 in int8" : span.dtype == DType::f32 ? "f32" : "bf16";
  switch (kind) {
    case Collective::Kind::all_reduce: return fmt::format("all_reduce of {} {}", span.count, type);
    case Collective::Kind::reduce_scatter: return fmt::format("reduce_scatter of {} {}", span.count, type);
    case Collective::Kind::all_gather: return fmt::format("all_gather of {} {}", span.count, type);
    case Collective::Kind::broadcast: break;
  }
  return fmt::format("broadcast of {} {} from rank {}", span.count, type, root);
}

}  // namespace ddp
