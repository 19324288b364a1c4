// The part of CUDA's runtime and language that this project uses, on the CPU. Kernels compile as C++ functions.
#pragma once

#include "emulator/api.h"
#include "emulator/emulator.h"
#include "emulator/language.h"
#include "emulator/launch.h"
#include "emulator/threads.h"
#include "emulator/vectors.h"
