#include "ops/cuda/cudnn_descriptor.h"

#include "core/error.h"

#include <algorithm>
#include <string>

namespace ddp::cudnn {
namespace {

// The text of the last failed call, or an empty string.
std::string last_error() {
  char text[1024] = "";
  cudnnGetLastErrorString(text, sizeof text);
  return text;
}

std::vector<cudnnBackendDescriptor_t> handles_of(std::span<const Descriptor> descriptors) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& d : descriptors) handles.push_back(d.raw());
  return handles;
}

}  // namespace

void check(cudnnStatus_t status, const char* call, const char* file, int line) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  fail(Exit::device, "{}:{}: {}: {}: {}", file, line, call, cudnnGetErrorString(status), last_error());
}

Descriptor::State::~State() {
  if (raw) (void)cudnnBackendDestroyDescriptor(raw);
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) : state_(std::make_shared<State>()) {
  DDP_CUDNN(cudnnBackendCreateDescriptor(type, &state_->raw));
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, std::span<const Descriptor> parts) {
  state_->parts.insert(state_->parts.end(), parts.begin(), parts.end());
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(parts), handles_of(parts).data());
}

Descriptor& Descriptor::finalize() {
  DDP_CUDNN(cudnnBackendFinalize(state_->raw));
  return *this;
}

bool Descriptor::try_finalize() { return cudnnBackendFinalize(state_->raw) == CUDNN_STATUS_SUCCESS; }

std::vector<Descriptor> Descriptor::parts(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                          int64_t max_count) const {
  std::vector<Descriptor> found;
  for (int64_t i = 0; i < max_count; ++i) found.emplace_back(type);
  const int64_t count = get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, max_count, handles_of(found).data());
  found.erase(found.begin() + count, found.end());
  return found;
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                            const void* values) {
  DDP_CUDNN(cudnnBackendSetAttribute(state_->raw, name, type, count, values));
  return *this;
}

int64_t Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t max_count,
                        void* values) const {
  int64_t count = 0;
  DDP_CUDNN(cudnnBackendGetAttribute(state_->raw, name, type, max_count, &count, values));
  return std::min(count, max_count);
}

}  // namespace ddp::cudnn
