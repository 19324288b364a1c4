// Which kernels of this program a GPU can run.
#pragma once

#include <string_view>

namespace ddp {

// A binary runs on GPUs of its major version, from its minor version on. PTX runs on all newer GPUs: the driver
// compiles it when the program first starts there.
enum class KernelImage { none, ptx, binary };

// `built`: architectures as in CMAKE_CUDA_ARCHITECTURES, with commas, such as "80-virtual,90-real". `capability`: 90
// for 9.0. A name without a number, such as "native", counts as a binary for every GPU.
KernelImage kernel_image(std::string_view built, int capability);

std::string_view built_architectures();  // of this program

}  // namespace ddp
