#include "comm/mpi/launcher.h"

#include "core/error.h"

#include <unistd.h>

#include <charconv>
#include <cstring>

namespace ddp {
namespace {

int count_in(const Environment& environment, const std::string& variable) {
  const auto found = environment.find(variable);
  if (found == environment.end()) return 0;
  int count = 0;
  const std::string& text = found->second;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

}  // namespace

Environment environment_of_process() {
  Environment environment;
  for (char** entry = environ; *entry; ++entry)
    if (const char* const equals = std::strchr(*entry, '='))
      environment.emplace(std::string(*entry, equals - *entry), equals + 1);
  return environment;
}

std::optional<Promise> promised_ranks(const Environment& environment) {
  const std::string mpirun = "OMPI_COMM_WORLD_SIZE", srun = "SLURM_STEP_NUM_TASKS", pmi = "PMI_SIZE";
  const char* const matching = "start it with the mpirun of the MPI it was built with (ldd ddp_train shows which)";
  if (const int ranks = count_in(environment, mpirun)) return Promise{ranks, "mpirun", mpirun, matching};
  if (const int ranks = count_in(environment, srun); ranks && environment.contains("SLURM_STEP_ID"))
    return Promise{ranks, "srun", srun, "use srun --mpi=pmix, or mpirun inside sbatch"};
  if (const int ranks = count_in(environment, pmi)) return Promise{ranks, "a PMI launcher", pmi, matching};
  return std::nullopt;
}

void require_promised_ranks(const Environment& environment, int world_size) {
  const std::optional<Promise> promise = promised_ranks(environment);
  if (!promise || promise->ranks <= world_size) return;
  fail(Exit::world, "{} promised {} ranks ({}), but the MPI world has {}: {}", promise->launcher, promise->ranks,
       promise->variable, world_size, promise->remedy);
}

}  // namespace ddp
