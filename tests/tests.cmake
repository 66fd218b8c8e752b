# tests: tests/unit/test_X.c and tests/ops/test_X.c are one cmocka program and one CTest entry each;
# tests/golden and tests/integration hold Python and shell drivers (test_*.py, test_*.sh), one CTest entry each.
# tests/fuzz/fuzz_X.c is a libFuzzer target (BRR_FUZZ, clang) and always a program replay_X that ctest runs over tests/fuzz/corpus/X.
# A driver exits 77 to be shown as skipped (data that only some machines have).
# Programs that compute wait passively, as the daemon does, so that tests may run beside one another.
# Labels: `unit` for compiled tests and corpora (what the sanitizers run), plus the folder; `driver` for Python beside them.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
find_program(Python3_EXECUTABLE NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED) # the one that sees Debian packages

file(GLOB unit_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/test_*.c ${CMAKE_SOURCE_DIR}/tests/ops/test_*.c)
set(ground_floor_tests err arena str map mailbox fsio json yaml options log metrics rng digest safetensors store cache)
list(TRANSFORM ground_floor_tests PREPEND test_)
add_custom_target(unit_programs) # all that carries the label unit
foreach(source ${unit_tests})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  add_executable(${name} ${source})
  if(name IN_LIST ground_floor_tests)
    target_link_libraries(${name} PRIVATE brr_store PkgConfig::CMOCKA)
  else()
    target_link_libraries(${name} PRIVATE brr_run PkgConfig::CMOCKA)
  endif()
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE BRR_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(unit_programs ${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77 LABELS "unit;${folder}"
    ENVIRONMENT OMP_WAIT_POLICY=passive)
endforeach()

file(GLOB fuzz_targets CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
set(fuzz_floor_jobfile brr_run) # what a target needs beyond lib/data
set(fuzz_floor_proto brr_daemon)
foreach(source ${fuzz_targets})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" short ${name})
  set(floor brr_data)
  if(DEFINED fuzz_floor_${short})
    set(floor ${fuzz_floor_${short}})
  endif()
  if(BRR_FUZZ)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE ${floor})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  endif()
  add_executable(replay_${short} ${source} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.c)
  target_link_libraries(replay_${short} PRIVATE ${floor})
  set_target_properties(replay_${short} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(unit_programs replay_${short})
  add_test(NAME replay_${short} COMMAND replay_${short} ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${short})
  set_tests_properties(replay_${short} PROPERTIES TIMEOUT 120 LABELS "unit;fuzz")
endforeach()

# What the drivers of tests/golden and tests/integration run: one program per C file, in the tests folder of the build.
file(GLOB driver_programs CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/golden/*.c ${CMAKE_SOURCE_DIR}/tests/integration/*.c)
foreach(source ${driver_programs})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE brr_run)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()

file(GLOB driver_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/golden/test_*.py ${CMAKE_SOURCE_DIR}/tests/integration/test_*.py
                                         ${CMAKE_SOURCE_DIR}/tests/unit/test_*.py)
foreach(source ${driver_tests})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  if(folder STREQUAL "unit")
    set(folder driver) # Python beside the C tests: not run under the sanitizers
  endif()
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${source})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77 LABELS ${folder}
    ENVIRONMENT "OMP_WAIT_POLICY=passive;BRR_BIN=${CMAKE_BINARY_DIR}/bin;BRR_SOURCE_DIR=${CMAKE_SOURCE_DIR};BRR_BUILD_DIR=${CMAKE_BINARY_DIR}")
endforeach()
