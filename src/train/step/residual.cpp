#include "train/step/residual.h"

#include "core/error.h"

#include <algorithm>
#include <functional>
#include <span>

namespace ddp {

void take_residual(Replica& r) {
  const auto bad = r.block.bad();
  const auto is_good = [](std::span<const float> marks) {
    return std::ranges::count(marks, 0.0f) == std::ssize(marks);
  };
  if (!(r.device.is_host() ? is_good(bad) : is_good(r.download(bad.data(), std::ssize(bad))))) return;
  const bool first = r.step_residual.before == r.residual_buffers[0].data();
  r.step_residual = {r.residual_buffers[first ? 1 : 0].as<float>(), r.residual_buffers[first ? 0 : 1].as<float>()};
}

void download_residual(Replica& r, int host, float* values) {
  r.zero_gradients();
  if (r.communicator.place().host == host)
    r.device.upload(r.gradients(), r.step_residual.before, bytes_of_floats(r.plan.padded));
  r.communicator.wait(r.communicator.all_reduce({r.gradients(), r.plan.padded, DType::f32}));
  if (values) r.device.download(values, r.gradients(), bytes_of_floats(r.plan.gradients));
  r.device.synchronize();
}

// A rank rounds the values of its lane alone, and in a reduce_scatter those of the other hosts alone. A sum of zeros
// shows which: it rounds a residual of 1 to something else.
void load_residuals(Replica& r, int hosts_then, const std::function<std::vector<float>(int host)>& of_host) {
  if (!r.sums_in_int8() || hosts_then == 0) return;
  const auto count = static_cast<size_t>(r.plan.padded);
  const std::span before(r.residual_buffers[0].as<float>(), count), after(r.residual_buffers[1].as<float>(), count);
  r.step_residual = {before.data(), after.data()};
  std::ranges::fill(before, 1.0f);
  std::ranges::fill(after, 1.0f);
  r.zero_gradients();
  for (int c = 0; c < std::ssize(r.plan.buckets); ++c) r.reducer.run_alone(c);
  for (float& value : after) value = value == 1 ? 0 : 1;  // whether this rank rounds it
  r.device.upload(r.gradients(), after.data(), after.size_bytes());
  r.communicator.wait(r.communicator.all_reduce({r.gradients(), r.plan.padded, DType::f32}));
  const std::vector<float> takers = r.download(r.gradients(), r.plan.padded);

  const auto [host, hosts] = r.communicator.place();
  const bool same = hosts_then == hosts;
  std::ranges::fill(before, 0.0f);
  for (int then = 0; then < hosts_then; ++then) {
    const std::vector<float> values = of_host(then);
    DDP_EXPECT(values.size() <= count);
    if (!same || then == host) std::ranges::transform(values, before, before.begin(), std::plus());
  }
  for (size_t i = 0; i < count; ++i) before[i] = after[i] == 0 ? 0 : same ? before[i] : before[i] / takers[i];
  std::ranges::fill(after, 0.0f);
}

}  // namespace ddp
