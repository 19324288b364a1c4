// What can be said before there is MPI: that it will not come up, that it does not, or that it came up broken.
#pragma once

#include "app/doctor/time_limit.h"
#include "core/error.h"

#include <memory>
#include <optional>

namespace ddp::doctor {

// Where MPI_Init would fail with a page of its own, prints ours, as an error or as --doctor's report; this is the exit
// code then. Once, or where the launcher lets other hosts go on, once on each.
std::optional<Exit> refuse_before_mpi(int argc, char** argv);

// Under --doctor, ends this process where it is not destroyed in time, when all ranks are there; else null.
std::unique_ptr<TimeLimit> startup_limit(int argc, char** argv);

// Prints an error of MPI's start in the same way.
void report_startup_error(const Error& error, int argc, char** argv);

}  // namespace ddp::doctor
