#include "comm/mpi/launcher.h"

#include "core/error.h"

#include <unistd.h>

#include <charconv>
#include <cstring>

namespace ddp {
namespace {

constexpr const char* kSrunRemedy = "use srun --mpi=pmix, or mpirun inside sbatch";

int count_in(const Environment& environment, const std::string& variable) {
  const std::string text = value_in(environment, variable);
  int count = 0;
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

std::string value_in(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::optional<ExpectedWorld> expected_world(const Environment& environment) {
  const std::string mpirun = "OMPI_COMM_WORLD_SIZE", srun = "SLURM_STEP_NUM_TASKS", pmi = "PMI_SIZE";
  const char* const matching = "start it with the mpirun of the MPI it was built with (ldd ddp_train shows which)";
  const auto number = [&](const char* variable) { return count_in(environment, variable); };
  if (const int ranks = count_in(environment, mpirun))
    return ExpectedWorld{
        ranks, "mpirun", mpirun, matching, number("OMPI_COMM_WORLD_RANK"), number("OMPI_COMM_WORLD_LOCAL_RANK")};
  if (const int ranks = count_in(environment, srun); ranks && environment.contains("SLURM_STEP_ID"))
    return ExpectedWorld{ranks, "srun", srun, kSrunRemedy, number("SLURM_PROCID"), number("SLURM_LOCALID")};
  if (const int ranks = count_in(environment, pmi)) {
    const char* const local = environment.contains("MPI_LOCALRANKID") ? "MPI_LOCALRANKID" : "PMI_RANK";
    return ExpectedWorld{ranks, "a PMI launcher", pmi, matching, number("PMI_RANK"), number(local)};
  }
  return std::nullopt;
}

void require_expected_ranks(const Environment& environment, int world_size) {
  const std::optional<ExpectedWorld> expected = expected_world(environment);
  if (!expected || expected->ranks <= world_size) return;
  fail(Exit::world, "{} promised {} ranks ({}), but the MPI world has {}: {}", expected->launcher, expected->ranks,
       expected->variable, world_size, expected->remedy);
}

void require_one_rank(const Environment& environment, const std::string& command) {
  const std::optional<ExpectedWorld> expected = expected_world(environment);
  require(!expected || expected->ranks == 1, Exit::usage, "{} runs on one rank, not on {}: start it without mpirun",
          command, expected ? expected->ranks : 1);
}

void require_pmi(const Environment& environment) {
  const std::optional<ExpectedWorld> expected = expected_world(environment);
  if (!expected || expected->launcher != "srun" || expected->ranks < 2) return;
  for (const auto& [name, value] : environment)
    if (name.starts_with("PMI_") || name.starts_with("PMIX_")) return;
  fail(Exit::world,
       "srun promised {} ranks ({}), but gave them no PMI: the ranks cannot find each other, and each would run as its "
       "own job: {}",
       expected->ranks, expected->variable, kSrunRemedy);
}

bool first_at_launch(const Environment& environment) {
  for (const char* const rank : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const std::string value = value_in(environment, rank); !value.empty()) return value == "0";
  return true;
}

}  // namespace ddp
