# mpirun's environment for tests as root and with more ranks than cores.
set(DDP_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
                        OMPI_MCA_hwloc_base_binding_policy=none)

# add_mpi_test(name target ranks...): for each number of ranks <n> registers name_np<n>, which runs the target under
# mpirun. The program must fail if the size of its world is not DDP_EXPECT_WORLD, which is <n>. Tests may share cores.
function(add_mpi_test name target)
  foreach(ranks ${ARGN})
    set(test ${name}_np${ranks})
    add_test(NAME ${test} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${target}>)
    set_tests_properties(${test} PROPERTIES
      TIMEOUT 120
      PROCESSORS ${ranks}
      ENVIRONMENT "DDP_EXPECT_WORLD=${ranks};OMP_NUM_THREADS=1;${DDP_MPI_ENVIRONMENT}")
  endforeach()
endfunction()
