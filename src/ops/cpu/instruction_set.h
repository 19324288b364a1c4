// Which instructions this processor has, as levels of x86-64; kernels are compiled for each and chosen at start.
#pragma once

namespace ddp {

enum class InstructionSet { base, v3, v4 };  // v3: AVX2 and FMA; v4: AVX-512

InstructionSet instruction_set();

}  // namespace ddp
