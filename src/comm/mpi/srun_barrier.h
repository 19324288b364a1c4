// A barrier of the ranks that srun started.
#pragma once

namespace ddp {

// Returns when every rank of the job has come here. Sends no MPI messages. Call it after MPI_Init and before the first
// message: with Slurm 22.05, MPI_Init waits for the ranks of this node only, and the message of a fast rank ends a rank
// that is still in MPI_Init with signal 11. Does nothing if MPI does not use PMIx as a library of its own.
void wait_for_ranks_of_srun();

}  // namespace ddp
