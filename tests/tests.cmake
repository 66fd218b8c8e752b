# tests: tests/unit/test_X.c and tests/ops/test_X.c are one cmocka program and one CTest entry each;
# tests/golden and tests/integration hold Python and shell drivers (test_*.py, test_*.sh), one CTest entry each.
# A driver exits 77 to be shown as skipped (data that only some machines have).
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
find_program(Python3_EXECUTABLE NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED) # the one that sees Debian packages

file(GLOB unit_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/test_*.c ${CMAKE_SOURCE_DIR}/tests/ops/test_*.c)
foreach(source ${unit_tests})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE brr_run PkgConfig::CMOCKA)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE BRR_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()

# What the drivers of tests/golden run: one program per C file, in the tests folder of the build.
file(GLOB golden_programs CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/golden/*.c)
foreach(source ${golden_programs})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE brr_run)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()

file(GLOB driver_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/golden/test_*.py ${CMAKE_SOURCE_DIR}/tests/integration/test_*.py
                                         ${CMAKE_SOURCE_DIR}/tests/unit/test_*.py)
foreach(source ${driver_tests})
  get_filename_component(name ${source} NAME_WE)
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${source})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "BRR_BIN=${CMAKE_BINARY_DIR}/bin;BRR_SOURCE_DIR=${CMAKE_SOURCE_DIR};BRR_BUILD_DIR=${CMAKE_BINARY_DIR}")
endforeach()
