// What the launcher of this process promised, by its environment: a pure decision.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace ddp {

using Environment = std::map<std::string, std::string>;

Environment environment_of_process();
std::string name_of_host();

std::string value_in(const Environment& environment, const std::string& name);  // empty where it is not set

struct ExpectedWorld {
  int ranks = 0;
  std::string launcher, variable, remedy;
  int rank = 0, local_rank = 0;  // of this process and on its host, as the launcher counts
};

// Empty where no launcher we know started this process.
std::optional<ExpectedWorld> expected_world(const Environment& environment);

// Throws Error(Exit::world) with both counts where the launcher promised more ranks than the world has: then this
// program and its launcher do not speak the same MPI, and every rank would train alone.
void require_promised_ranks(const Environment& environment, int world_size);

// Before MPI is initialised: throws the same where srun started several tasks without any PMI, as with --mpi=none. Open
// MPI would end each of them with a page of text.
void require_pmi(const Environment& environment);

// Whether this is the process that speaks where all fail alike: the launcher's first, or one without a launcher.
bool first_at_launch(const Environment& environment);

}  // namespace ddp
