// The doctor before MPI runs: MPI_Init would fail, hangs, or has failed.
#pragma once

#include "app/commands/doctor/time_limit.h"
#include "core/error.h"
#include "health/signals.h"

#include <memory>
#include <optional>

namespace ddp::doctor {

// Where MPI_Init would fail with its own long message, prints a finding instead, as an error or as --doctor's
// report, and returns the exit code; else returns nothing. One rank prints, or one rank of each host where the launcher
// lets the other hosts continue.
std::optional<Exit> refuse_before_mpi(int argc, char** argv);

// Keeps the ranks of a job on one host off the network. Call it before MPI starts.
void stay_off_network();

// The limit of MPI's start under --doctor; null without. Destroy it when all ranks have started: when the time is up,
// it prints a finding and ends this process.
std::unique_ptr<TimeLimit> startup_limit(int argc, char** argv);

// Prints an error of MPI's start in the same form, unless another rank on this host has printed its own: then mpirun
// has sent a stop signal. `signals`: null if the error is that they could not be set up.
void report_startup_error(const Error& error, const Signals* signals, int argc, char** argv);

}  // namespace ddp::doctor
