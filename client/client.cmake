# client: libbrr (gRPC behind one file; only brr_* leaves it), brrctl over it, and the examples.
include(GNUInstallDirs)
set(BRR_ABI 1) # raised when client/brr.h breaks its promise
file(GLOB brr_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/client/*.c)
add_library(brr SHARED ${brr_sources})
target_include_directories(brr PRIVATE ${CMAKE_SOURCE_DIR}/lib PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
target_compile_definitions(brr PRIVATE BRR_LIBRARY_VERSION="${PROJECT_VERSION}")
target_link_libraries(brr PRIVATE brr_base brr_trust brr_proto PkgConfig::GRPC)
target_link_options(brr PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/client/libbrr.map -Wl,--as-needed)
set_target_properties(brr PROPERTIES SOVERSION ${BRR_ABI} VERSION ${BRR_ABI}.${PROJECT_VERSION}
                                     LINK_DEPENDS ${CMAKE_SOURCE_DIR}/client/libbrr.map)

# libbrr_scan, libbrr_detector and libbrr_burst: the scans, detectors and spiking networks of brrd in other programs, without a daemon.
set(BRR_SCAN_ABI 1)     # raised when client/scan/brr_scan.h breaks its promise
set(BRR_DETECTOR_ABI 1) # and client/detector/brr_detector.h
set(BRR_BURST_ABI 1)    # and client/burst/brr_burst.h
foreach(part scan detector burst)
  set(library brr_${part})
  string(TOUPPER ${library}_ABI abi)
  set(name ${library})
  if(part STREQUAL "burst") # the floor has that name
    set(library brr_burst_shared)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/client/${part}/*.c)
  add_library(${library} SHARED ${sources})
  target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/client/${part}>)
  target_compile_definitions(${library} PRIVATE BRR_LIBRARY_VERSION="${PROJECT_VERSION}")
  set(map ${CMAKE_SOURCE_DIR}/client/${part}/lib${name}.map)
  # nodelete: helpers of a thread's work (kernels/lanes.h) outlive the calls
  target_link_options(${library} PRIVATE -Wl,--version-script=${map} -Wl,--as-needed -Wl,--gc-sections -Wl,-z,nodelete)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${${abi}} VERSION ${${abi}}.${PROJECT_VERSION} LINK_DEPENDS ${map})
endforeach()
target_link_libraries(brr_scan PRIVATE brr_kernels)
target_link_libraries(brr_detector PRIVATE brr_detect)
target_link_libraries(brr_burst_shared PRIVATE brr_burst)

find_path(BRR_ERL_NIF erl_nif.h HINTS /usr/lib/erlang/usr/include /usr/local/lib/erlang/usr/include)
if(BRR_ERL_NIF) # for the warnings of this build; users compile it by its Makefile
  add_library(brr_scan_nif MODULE ${CMAKE_SOURCE_DIR}/client/erlang/brr_scan_nif.c)
  target_include_directories(brr_scan_nif SYSTEM PRIVATE ${BRR_ERL_NIF})
  target_link_libraries(brr_scan_nif PRIVATE brr_scan)
endif()

file(GLOB brrctl_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/client/brrctl/*.c ${CMAKE_SOURCE_DIR}/client/brrctl/*/*.c)
add_executable(brrctl ${brrctl_sources})
target_link_libraries(brrctl PRIVATE brr_revision brr brr_proto_json brr_kinds brr_trust)
target_compile_definitions(brrctl PRIVATE BRR_VERSION="${PROJECT_VERSION}")
set_target_properties(brrctl PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

file(GLOB example_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/client/examples/*.c)
foreach(source ${example_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(example_${name} ${source})
  target_include_directories(example_${name} PRIVATE ${CMAKE_SOURCE_DIR}/client) # as installed: <brr.h>, <brr_scan.h>
  target_link_libraries(example_${name} PRIVATE brr brr_scan m)
  set_target_properties(example_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
endforeach()

# What `cmake --install` lays out; programs of other folders are found when their targets exist.
cmake_language(DEFER CALL include ${CMAKE_SOURCE_DIR}/client/install.cmake)
