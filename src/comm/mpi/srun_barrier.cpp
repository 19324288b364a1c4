#include "comm/mpi/srun_barrier.h"

#include <dlfcn.h>
#include <pmix.h>

#include <cstring>

namespace ddp {

void wait_for_ranks_of_srun() {
  void* const library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);  // MPI has loaded it
  if (!library) return;
  const auto init = reinterpret_cast<decltype(&PMIx_Init)>(dlsym(library, "PMIx_Init"));
  const auto fence = reinterpret_cast<decltype(&PMIx_Fence)>(dlsym(library, "PMIx_Fence"));
  const auto finalize = reinterpret_cast<decltype(&PMIx_Finalize)>(dlsym(library, "PMIx_Finalize"));
  pmix_proc_t me{};
  if (init && fence && finalize && init(&me, nullptr, 0) == PMIX_SUCCESS) {
    // Slurm's fence is a barrier of all nodes only if it also exchanges data.
    pmix_info_t with_data{};
    std::strcpy(with_data.key, PMIX_COLLECT_DATA);
    with_data.value.type = PMIX_BOOL;
    with_data.value.data.flag = true;
    fence(nullptr, 0, &with_data, 1);
    finalize(nullptr, 0);  // of this use; MPI goes on
  }
  dlclose(library);
}

}  // namespace ddp
