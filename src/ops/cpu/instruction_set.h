// The instruction sets that our kernels are compiled for, as levels of x86-64. Other processors have `base` only.
#pragma once

#include <cstdint>

namespace ddp {

enum class InstructionSet : uint8_t { base, v3, v4 };  // v3: AVX2 and FMA; v4: AVX-512

const char* name_of(InstructionSet set);

// The largest set of this processor. A processor has all smaller ones too.
InstructionSet best_instruction_set();

// Whether this processor multiplies tiles of bf16 (AMX), and Linux lets this process use them. The first call asks
// Linux for the permission, for all threads.
bool has_amx();

// Throws Error(Exit::device) if `set` is larger than `best`.
void require_instruction_set(InstructionSet set, InstructionSet best);

}  // namespace ddp
