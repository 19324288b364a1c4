# The functions that register tests. A test's name is <room>.<Suite>.<Case> for a GoogleTest case, and <room>.<name> for
# a script. Each function also adds "<name> <target>" to tests.list in the build folder; launch/test -R reads from it
# which targets the chosen tests need.
include(GoogleTest)

# mpirun's environment for tests as root and with more ranks than cores. Tests may share cores.
set(DDP_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
                        OMPI_MCA_hwloc_base_binding_policy=none)
if(DDP_SANITIZE STREQUAL "address")
  # Open MPI never frees some memory of MPI_Init, and unloads the plugins that allocated it, so no suppression can name
  # them.
  list(APPEND DDP_MPI_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
endif()

# Seconds until CTest ends a test: far more than any test needs, for slow machines.
set(DDP_TEST_LIMIT 600)
if(DDP_SANITIZE)
  set(DDP_TEST_LIMIT 1800)
endif()

set(DDP_TEST_LIST ${PROJECT_BINARY_DIR}/tests.list)
file(WRITE ${DDP_TEST_LIST} "")

# ddp_test(target room SOURCES file... [OBJECTS library...] [LINK library...] [RANKS n...] [EXCLUDE regex] [SEPARATE]
#          [PROPERTIES property value...]):
# builds `target` and registers the GoogleTest cases of these files and of the object libraries. Several calls for one
# target add files with other properties. EXCLUDE leaves out the cases whose <Suite>.<Case> matches.
#
# All parameters of a case are one test, because a program that links CUDA or is instrumented takes up to 0.1 s to start.
# With a sanitizer all cases of a suite are one test, <room>.<Suite>, unless a COST says that the cases take long.
# With SEPARATE, for parameters that take long, each is a test of its own, named <room>.<Suite>.<Case>/<parameter>. With
# RANKS the cases of a suite run together under mpirun, as <room>.<Suite>/np<n> for each number of ranks n, because mpirun
# starts slowly. Their main() is mpi_main.cpp, which fails if the size of the world is not DDP_EXPECT_WORLD, which is n.
function(ddp_test target room)
  cmake_parse_arguments(PARSE_ARGV 2 arg "SEPARATE" "EXCLUDE" "SOURCES;OBJECTS;LINK;RANKS;PROPERTIES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "ddp_test(${target}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT TARGET ${target})
    add_executable(${target})
    target_sources(${target} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/$<IF:$<BOOL:${arg_RANKS}>,mpi,gtest>_main.cpp)
    target_link_libraries(${target} PRIVATE ddp_testing GTest::gtest)
  endif()
  target_sources(${target} PRIVATE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_OBJECTS} ${arg_LINK})
  foreach(library ${arg_OBJECTS})
    get_target_property(sources ${library} SOURCES)
    list(APPEND arg_SOURCES ${sources})
  endforeach()

  set(names)
  foreach(source ${arg_SOURCES})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} cases REGEX "^TEST(_F|_P)?\\(")
    list(TRANSFORM cases REPLACE "^TEST[_FP]*\\(([A-Za-z0-9_]+), *([A-Za-z0-9_]+).*" "\\1.\\2")
    list(APPEND names ${cases})
    file(STRINGS ${source} unknown REGEX
      "^([ \t]+TEST(_F|_P)?|TYPED_TEST[A-Z_]*)\\(|^INSTANTIATE_TEST_SUITE_P\\([^,]+,")
    if(unknown)
      message(FATAL_ERROR "${source}: ddp_test cannot name these cases: ${unknown}")
    endif()
  endforeach()
  if(arg_EXCLUDE)
    list(FILTER names EXCLUDE REGEX "${arg_EXCLUDE}")
  endif()
  if(NOT names)
    return()
  endif()
  list(TRANSFORM names REPLACE "\\..*" "" OUTPUT_VARIABLE suites)
  list(REMOVE_DUPLICATES suites)
  set(tests ${names})
  if(DDP_SANITIZE AND NOT arg_RANKS AND NOT arg_SEPARATE AND NOT COST IN_LIST arg_PROPERTIES)
    set(tests ${suites})
  endif()
  list(TRANSFORM tests REPLACE "(.+)" "${room}.\\1 ${target}" OUTPUT_VARIABLE lines)
  list(JOIN lines "\n" lines)
  file(APPEND ${DDP_TEST_LIST} "${lines}\n")

  if(arg_RANKS)
    foreach(suite ${suites})
      foreach(ranks ${arg_RANKS})
        set(test ${room}.${suite}/np${ranks})
        add_test(NAME ${test}
          COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${target}>
                  --gtest_filter=${suite}.*)
        set_tests_properties(${test} PROPERTIES
          TIMEOUT ${DDP_TEST_LIMIT}
          PROCESSORS ${ranks}
          ENVIRONMENT "DDP_EXPECT_WORLD=${ranks};OMP_NUM_THREADS=1;${DDP_MPI_ENVIRONMENT}"
          FAIL_REGULAR_EXPRESSION "Running 0 tests"
          ${arg_PROPERTIES})
      endforeach()
    endforeach()
  elseif(NOT arg_SEPARATE)
    foreach(test ${tests})
      set(filters ${names})
      list(FILTER filters INCLUDE REGEX "^${test}(\\.|$)")
      list(TRANSFORM filters REPLACE "(.+)" "\\1:\\1/*")
      list(JOIN filters ":" filter)
      add_test(NAME ${room}.${test} COMMAND ${target} --gtest_filter=${filter})
      set_tests_properties(${room}.${test} PROPERTIES
        TIMEOUT ${DDP_TEST_LIMIT}
        FAIL_REGULAR_EXPRESSION "Running 0 tests"
        SKIP_RETURN_CODE 77
        ${arg_PROPERTIES})
    endforeach()
  else()
    list(TRANSFORM names REPLACE "(.+)" "\\1:\\1/*" OUTPUT_VARIABLE filters)
    list(JOIN filters ":" filters)
    gtest_discover_tests(${target} TEST_PREFIX ${room}. TEST_FILTER ${filters} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 300
      PROPERTIES TIMEOUT ${DDP_TEST_LIMIT} SKIP_RETURN_CODE 77 ${arg_PROPERTIES})
  endif()
endfunction()

# ddp_script_test(name target COMMAND command... [PROPERTIES property value...]): registers a script. `target`: the
# program that the script runs, or `none`. The exit code 77 means skipped.
function(ddp_script_test name target)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "COMMAND;PROPERTIES")
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${DDP_TEST_LIMIT} SKIP_RETURN_CODE 77 ${arg_PROPERTIES})
  file(APPEND ${DDP_TEST_LIST} "${name} ${target}\n")
endfunction()
