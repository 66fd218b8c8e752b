# libbrr_mpi.so: ranks joined by MPI (base/world_mpi.h), compiled with a site's mpicc. Programs load it under a launcher only.
set(BRR_MPI AUTO CACHE STRING "build base/mpi: AUTO (when mpicc is found), ON, OFF")
find_program(BRR_MPICC NAMES mpicc)
set(BRR_MPI_BUILT OFF)
if(BRR_MPI STREQUAL "ON" AND NOT BRR_MPICC)
  message(FATAL_ERROR "BRR_MPI=ON, but no mpicc was found; install libopenmpi-dev and openmpi-bin, or set BRR_MPICC to its path")
endif()
if(BRR_MPICC AND NOT BRR_MPI STREQUAL "OFF" AND NOT BRR_SANITIZE AND NOT BRR_FUZZ)
  set(BRR_MPI_BUILT ON)
  set(mpi_library ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libbrr_mpi.so)
  set(mpi_source ${CMAKE_SOURCE_DIR}/base/mpi/mpi.c)
  add_custom_command(OUTPUT ${mpi_library} DEPENDS ${mpi_source} ${CMAKE_SOURCE_DIR}/base/world.h ${CMAKE_SOURCE_DIR}/base/world_mpi.h
      ${CMAKE_SOURCE_DIR}/base/err.h VERBATIM COMMENT "Building libbrr_mpi.so"
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}
    COMMAND ${BRR_MPICC} -std=gnu11 -O2 -g -fPIC -shared -Wall -Wextra -Werror -fvisibility=hidden -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR}
      -o ${mpi_library} ${mpi_source})
  add_custom_target(brr_mpi ALL DEPENDS ${mpi_library})
  message(STATUS "MPI: ${BRR_MPICC}")
else()
  message(STATUS "MPI: not built (BRR_MPI=${BRR_MPI}, mpicc ${BRR_MPICC})")
endif()
