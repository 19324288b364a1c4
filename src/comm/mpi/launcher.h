// What the environment variables of the launcher (mpirun, srun, PMI) say about the job. All functions that take an
// Environment are pure.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace ddp {

using Environment = std::map<std::string, std::string>;

Environment environment_of_process();

std::string value_in(const Environment& environment, const std::string& name);  // empty if the variable is not set

struct ExpectedWorld {
  int ranks = 0;
  std::string launcher;          // name
  std::string variable;          // environment variable with the rank count
  std::string remedy;            // advice for the user if the MPI world is smaller
  int rank = 0, local_rank = 0;  // of this process, as the launcher counts
};

// nullopt if no known launcher started this process.
std::optional<ExpectedWorld> expected_world(const Environment& environment);

// Throws Error(Exit::world) with both counts if the launcher promised more ranks than the MPI world has. Then program
// and launcher use different MPI libraries, and every rank would train alone.
void require_expected_ranks(const Environment& environment, int world_size);

// Throws Error(Exit::usage) if the launcher started several ranks of this command of the program.
void require_one_rank(const Environment& environment, const std::string& command);

// Throws Error(Exit::world) if srun started several tasks without PMI, as with --mpi=none. Call it before MPI_Init:
// Open MPI would end each task with a page of text.
void require_pmi(const Environment& environment);

// Whether this process reports an error that all processes have: rank 0 of the launcher, or the only process.
bool first_at_launch(const Environment& environment);

}  // namespace ddp
