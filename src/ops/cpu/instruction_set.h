// The x86-64 level of this processor. Kernels are compiled for each level; the program selects one when it starts.
#pragma once

namespace ddp {

enum class InstructionSet { base, v3, v4 };  // v3: AVX2 and FMA; v4: AVX-512

InstructionSet instruction_set();

}  // namespace ddp
