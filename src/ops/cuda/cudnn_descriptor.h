// RAII for the descriptors of cuDNN's graph API. Set attributes before finalize(), and get them after it.
#pragma once

#include <cudnn.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace ddp::cudnn {

// Throws Error(Exit::device) with the call, its position and the text of cuDNN, unless the call succeeded.
void check(cudnnStatus_t status, const char* call, const char* file, int line);

template <class T>
inline constexpr cudnnBackendAttributeType_t kAttributeType = T::no_such_attribute;
template <>
inline constexpr auto kAttributeType<int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr auto kAttributeType<float> = CUDNN_TYPE_FLOAT;
template <>
inline constexpr auto kAttributeType<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr auto kAttributeType<char> = CUDNN_TYPE_CHAR;
template <>
inline constexpr auto kAttributeType<void*> = CUDNN_TYPE_VOID_PTR;
template <>
inline constexpr auto kAttributeType<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr auto kAttributeType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto kAttributeType<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr auto kAttributeType<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr auto kAttributeType<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto kAttributeType<cudnnBackendKnobType_t> = CUDNN_TYPE_KNOB_TYPE;
template <>
inline constexpr auto kAttributeType<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;
template <>
inline constexpr auto kAttributeType<cudnnBackendBehaviorNote_t> = CUDNN_TYPE_BEHAVIOR_NOTE;

// A shared reference to one cuDNN descriptor. The descriptor, and all descriptors that were set into it, live as long
// as the last reference.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    return set(name, kAttributeType<T>, std::ssize(values), values.data());
  }
  template <class T>
  requires(!std::same_as<T, Descriptor>) Descriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return set(name, std::span<const T>(&value, 1));
  }
  Descriptor& set(cudnnBackendAttributeName_t name, std::initializer_list<int64_t> values) {
    return set(name, std::span<const int64_t>(values.begin(), values.size()));
  }
  Descriptor& set(cudnnBackendAttributeName_t name, std::string_view text) {
    return set(name, std::span<const char>(text));
  }
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<const Descriptor> parts);
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& part) {
    return set(name, std::span<const Descriptor>(&part, 1));
  }

  Descriptor& finalize();
  bool try_finalize();  // false if cuDNN does not support the descriptor

  template <class T>
  T get(cudnnBackendAttributeName_t name) const {
    T value{};
    get(name, kAttributeType<T>, 1, &value);
    return value;
  }
  // Returns at most `max_count` values.
  template <class T>
  std::vector<T> list(cudnnBackendAttributeName_t name, int64_t max_count) const {
    std::vector<T> values(max_count);
    values.resize(get(name, kAttributeType<T>, max_count, values.data()));
    return values;
  }
  std::vector<Descriptor> parts(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                int64_t max_count) const;

  cudnnBackendDescriptor_t raw() const { return state_->raw; }

 private:
  struct State {
    cudnnBackendDescriptor_t raw = nullptr;
    std::vector<Descriptor> parts;
    ~State();
  };

  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values);
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t max_count,
              void* values) const;

  std::shared_ptr<State> state_;
};

}  // namespace ddp::cudnn

#define DDP_CUDNN(call) ::ddp::cudnn::check((call), #call, __FILE__, __LINE__)
