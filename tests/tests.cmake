# tests: tests/unit/test_X.c and tests/ops/test_X.c are one cmocka program and one CTest entry each;
# tests/golden and tests/integration hold Python and shell drivers (test_*.py, test_*.sh), one CTest entry each.
# tests/fuzz/fuzz_X.c is a libFuzzer target (BRR_FUZZ, clang) and always a program replay_X that ctest runs over tests/fuzz/corpus/X.
# A test that skips says `skipped: CLASS: REASON` (tests/skip.h) and exits 77; one that skips a part of itself says so alone.
# Programs that compute wait passively, as the daemon does, so that tests may run beside one another.
# tests/chaos/test_chaos.py: a minute and a half of random faults for a daemon at work; test_ward_day.py: two minutes of a ward's day; `./dev chaos`
# and `./dev day ward` run them for longer. test_lab_day.py: a
# minute of `./dev day lab`.
# Labels: `unit` for compiled tests and corpora (what the sanitizers run), plus the folder; `driver` for Python beside them; `quick` for
# both, but for those that need big packages or minutes; `seeded` for what draws its cases from test_seed (tests/seed.h, seed.py), which
# `./dev test --fresh` repeats.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
find_program(Python3_EXECUTABLE NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED) # the one that sees Debian packages

# brr_test(NAME COMMAND program argument… LABELS label… [ENVIRONMENT NAME=VALUE…]): an entry of CTest. After test_limit_NAME seconds, else
# 300, in which it could have run, the test counts as hung; tests/with_limit.py, which does not count the time of other programs, then says
# who waits for what. CTest's own limit, a bare kill by the clock, lies far behind. By COST, CTest starts tests with a limit of their own first, then
# long_tests, then those with daemons and emulated GPUs: what takes longest does not begin when the others have ended. PROCESSORS counts halves: tests with
# daemons and clients wait for clocks, sockets and disks two thirds of their time, so two of them run in the place of one that computes.
set(test_limit_test_chaos 600)   # faults of minutes, and the time to get over each
set(test_limit_test_ward_day 600)
set(test_limit_test_package 900) # this one and the next may fetch a Debian first
set(test_limit_test_image 900)
set(test_limit_test_image_cuda 7200) # where BRR_TEST_IMAGE asks for it
set(test_limit_test_real_clips 900) # trainings of minutes
set(test_limit_test_lsl 600)
set(long_tests emulated_test_ops_vs_cpu emulated_test_geodesic_fit emulated_test_network_vs_cpu test_baseline_bandpower
    test_browser test_browser_ward test_burst_job test_cache_crash test_configs test_demo_model test_device_fault test_lab_day test_network_golden
    test_ranks test_slurm test_store_model test_stream_limits test_stream_survival) # half a minute and more
function(brr_test name)
  cmake_parse_arguments(ARG "" "" "COMMAND;LABELS;ENVIRONMENT" ${ARGN})
  set(limit 300)
  set(cost 0)
  set(halves 2)
  if(DEFINED test_limit_${name})
    set(limit ${test_limit_${name}})
    set(cost ${limit})
  elseif(name IN_LIST long_tests)
    set(cost 100)
  elseif(ARG_LABELS MATCHES "integration|package|emulated")
    set(cost 30)
  endif()
  if(ARG_LABELS MATCHES "integration|package|chaos")
    set(halves 1)
  endif()
  if(BRR_SANITIZE)
    math(EXPR limit "4 * ${limit}")
  endif()
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/with_limit.py ${limit} ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT 14400 SKIP_RETURN_CODE 77 COST ${cost} PROCESSORS ${halves} LABELS "${ARG_LABELS}"
    ENVIRONMENT "OMP_WAIT_POLICY=passive;BRR_STOP_AT_NULL=1;${ARG_ENVIRONMENT}")
endfunction()

function(seeded_label source ret) # "seeded", or nothing
  file(STRINGS ${source} draws REGEX "test_seed\\(|fixture_setup")
  if(draws)
    set(${ret} seeded PARENT_SCOPE)
  else()
    set(${ret} "" PARENT_SCOPE)
  endif()
endfunction()

file(GLOB unit_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/test_*.c ${CMAKE_SOURCE_DIR}/tests/ops/test_*.c)
if(BRR_SANITIZE OR BRR_FUZZ)
  list(FILTER unit_tests EXCLUDE REGEX "/test_step_allocations\\.c$") # it replaces malloc, and so do they
endif()
set(ground_floor_tests err world volume container arena str counted pack map mailbox crew fsio json yaml options log metrics rng digest safetensors store cache)
list(TRANSFORM ground_floor_tests PREPEND test_)
set(trust_tests test_token test_certificate)
set(line_buffered ${CMAKE_SOURCE_DIR}/tests/line_buffered.c) # in every test program
add_custom_target(unit_programs) # all that carries the label unit
add_custom_target(quick_programs DEPENDS unit_programs edfgen) # and quick
set(quick_drivers test_edfgen test_report_of_tests test_with_limit)
foreach(source ${unit_tests})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  add_executable(${name} ${source} ${line_buffered})
  file(STRINGS ${source} of_the_daemon REGEX "#include \"(daemon|unit/session_fixture|unit/live_fixture|unit/sched_fixture)")
  if(name IN_LIST ground_floor_tests)
    target_link_libraries(${name} PRIVATE brr_store PkgConfig::CMOCKA)
  elseif(name IN_LIST trust_tests)
    target_link_libraries(${name} PRIVATE brr_trust PkgConfig::CMOCKA)
  elseif(of_the_daemon)
    target_link_libraries(${name} PRIVATE brr_daemon PkgConfig::CMOCKA)
  else()
    target_link_libraries(${name} PRIVATE brr_kinds PkgConfig::CMOCKA)
  endif()
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE BRR_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(unit_programs ${name})
  seeded_label(${source} seeded)
  brr_test(${name} COMMAND $<TARGET_FILE:${name}> LABELS unit quick ${folder} ${seeded}
           ENVIRONMENT OMP_DYNAMIC=true) # a dynamic team must not leave parts of a result out
endforeach()

foreach(name test_worker test_live test_models test_rpc test_session_resume)
  target_link_options(${name} PRIVATE -Wl,--wrap=calloc) # memory runs short where the test says
endforeach()
target_link_options(test_models PRIVATE -Wl,--wrap=fsync -Wl,--wrap=link)
target_link_options(test_removal PRIVATE -Wl,--wrap=fsio_remove_tree -Wl,--wrap=link) # so do volumes
target_link_options(test_turns PRIVATE -Wl,--wrap=clock_ms) # time as the test says
target_link_options(test_auth PRIVATE -Wl,--wrap=clock_wall_ms)
target_link_options(test_device_hosts PRIVATE -Wl,--wrap=clock_ms -Wl,--wrap=model_image_open -Wl,--wrap=detector_upload) # time and volumes as the test says
target_link_options(test_rpc PRIVATE -Wl,--wrap=realpath -Wl,--wrap=uv_now -Wl,--wrap=getsockopt) # a volume does not answer where the test says
foreach(name test_live test_session_resume)
  target_link_options(${name} PRIVATE -Wl,--wrap=malloc)
endforeach()
target_link_options(test_session_resume PRIVATE -Wl,--wrap=digest_bytes)
target_sources(test_paths PRIVATE ${CMAKE_SOURCE_DIR}/daemon/paths.c)
target_link_options(test_yaml PRIVATE -Wl,--wrap=strcmp) # comparisons are counted
target_link_options(test_slurm_doubt PRIVATE -Wl,--wrap=clock_ms -Wl,--wrap=command_run) # a cluster as the test says
target_link_options(test_beds PRIVATE -Wl,--wrap=clock_ms -Wl,--wrap=clock_wall_ms)
target_link_options(test_snapshot_store PRIVATE -Wl,--wrap=fsio_read -Wl,--wrap=snapshot_write_eeg) # so does it here
target_link_options(test_journal PRIVATE -Wl,--wrap=clock_wall_ms -Wl,--wrap=trusted_boot_ms)
target_link_options(test_onsets PRIVATE -Wl,--wrap=clock_ms -Wl,--wrap=clock_wall_ms -Wl,--wrap=trusted_boot_ms -Wl,--wrap=fsio_free_bytes -Wl,--wrap=fsync)
target_link_options(test_hooks PRIVATE -Wl,--wrap=journal_told)
target_link_options(test_session_journal PRIVATE -Wl,--wrap=journal_add -Wl,--wrap=journal_add_again -Wl,--wrap=-Wl,--wrap=journal_has -Wl,--wrap=journal_is_failing -Wl,--wrap=clock_ms)
foreach(name test_process test_session_save test_snapshot_store)
  target_link_options(${name} PRIVATE -Wl,--wrap=clock_ms)
endforeach()
target_link_options(test_snapshot PRIVATE -Wl,--wrap=fsync)
foreach(name test_snapshot test_snapshot_store test_store)
  target_link_options(${name} PRIVATE -Wl,--wrap=readdir) # a volume fails where the test says
endforeach()
target_link_libraries(test_rpc PRIVATE brr)
target_link_libraries(test_conn PRIVATE brr PkgConfig::GRPC)
target_link_libraries(test_scan_library PRIVATE brr_scan OpenMP::OpenMP_C)
target_sources(test_client_call PRIVATE ${CMAKE_SOURCE_DIR}/client/brrctl/call.c ${CMAKE_SOURCE_DIR}/client/brrctl/listing.c ${CMAKE_SOURCE_DIR}/client/brrctl/output.c)
target_sources(test_alarm_history PRIVATE ${CMAKE_SOURCE_DIR}/client/brrctl/admin/alarm_history.c)
target_sources(test_listing PRIVATE ${CMAKE_SOURCE_DIR}/client/brrctl/listing.c)
target_link_libraries(test_client_call PRIVATE brr_proto_json)
target_link_libraries(test_alarm_history PRIVATE brr_proto)
target_link_libraries(test_message_json PRIVATE brr_proto_json)
target_sources(test_proxy PRIVATE ${CMAKE_SOURCE_DIR}/client/proxy.c)
target_sources(test_spare_memory PRIVATE ${CMAKE_SOURCE_DIR}/daemon/spare_memory.c)
target_link_options(test_spare_memory PRIVATE -Wl,--wrap=malloc_trim)
target_sources(test_thread_room PRIVATE ${CMAKE_SOURCE_DIR}/daemon/deadline.c)
target_sources(test_lsl_timeline PRIVATE ${CMAKE_SOURCE_DIR}/client/brrctl/lsl/lsl_timeline.c)
target_link_libraries(test_link PRIVATE brr_proto) # libbrr hides its parts; the test stands in for its connections
target_sources(test_link PRIVATE ${CMAKE_SOURCE_DIR}/client/link.c ${CMAKE_SOURCE_DIR}/client/inbox.c ${CMAKE_SOURCE_DIR}/client/outbox.c)
target_sources(test_reload PRIVATE ${CMAKE_SOURCE_DIR}/daemon/reload.c)
target_sources(test_notify PRIVATE ${CMAKE_SOURCE_DIR}/daemon/notify.c)

file(GLOB fuzz_targets CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
set(fuzz_floor_jobfile brr_kinds) # what a target needs beyond lib/windows
set(fuzz_floor_proto brr_daemon)
set(fuzz_floor_form brr_daemon)
set(fuzz_floor_tokens brr_trust)
set(fuzz_floor_certificate brr_trust)
set(fuzz_floor_network brr_burst)
set(fuzz_floor_spectra brr_geodesic)
foreach(source ${fuzz_targets})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" short ${name})
  set(floor brr_windows)
  if(DEFINED fuzz_floor_${short})
    set(floor ${fuzz_floor_${short}})
  endif()
  if(BRR_FUZZ)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE ${floor})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  endif()
  add_executable(replay_${short} ${source} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.c ${line_buffered})
  target_link_libraries(replay_${short} PRIVATE ${floor})
  set_target_properties(replay_${short} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(unit_programs replay_${short})
  brr_test(replay_${short} COMMAND $<TARGET_FILE:replay_${short}> ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${short} LABELS unit quick fuzz)
endforeach()

# What the drivers of tests/golden and tests/integration run: one program per C file, in the tests folder of the build.
file(GLOB driver_programs CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/golden/*.c ${CMAKE_SOURCE_DIR}/tests/integration/*.c)
foreach(source ${driver_programs})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE brr_kinds)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()

target_link_libraries(away_driver PRIVATE brr)
foreach(part lsl/source_lsl lsl/lsl_library lsl/lsl_timeline interrupt output)
  target_sources(lsl_driver PRIVATE ${CMAKE_SOURCE_DIR}/client/brrctl/${part}.c)
endforeach()
target_link_libraries(lsl_driver PRIVATE brr_proto_json ${CMAKE_DL_LIBS})

# build/kinds: brrd and brrctl with one kind of job more, from the same objects. tests/kinds adds its file and its line of the table.
foreach(program brrd brrctl)
  add_executable(${program}_kinds $<TARGET_OBJECTS:${program}> lib/kinds/kinds.c tests/kinds/counter.c)
  target_link_libraries(${program}_kinds PRIVATE $<TARGET_PROPERTY:${program},LINK_LIBRARIES>)
  target_include_directories(${program}_kinds PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${program}_kinds PRIVATE BRR_KINDS="tests/kinds/kinds.def")
  set_target_properties(${program}_kinds PROPERTIES OUTPUT_NAME ${program} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/kinds)
endforeach()
target_sources(brrd_kinds PRIVATE lib/kinds/works.c)

file(GLOB driver_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/golden/test_*.py ${CMAKE_SOURCE_DIR}/tests/integration/test_*.py
                                         ${CMAKE_SOURCE_DIR}/tests/unit/test_*.py ${CMAKE_SOURCE_DIR}/tests/chaos/test_*.py
                                         ${CMAKE_SOURCE_DIR}/tests/package/test_*.py)
foreach(source ${driver_tests})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  if(folder STREQUAL "unit")
    set(folder driver) # Python beside the C tests: not run under the sanitizers
    if(name IN_LIST quick_drivers)
      list(APPEND folder quick)
    endif()
  endif()
  seeded_label(${source} seeded)
  brr_test(${name} COMMAND ${source} LABELS ${folder} ${seeded}
           ENVIRONMENT BRR_BIN=${CMAKE_BINARY_DIR}/bin BRR_SOURCE_DIR=${CMAKE_SOURCE_DIR} BRR_BUILD_DIR=${CMAKE_BINARY_DIR})
endforeach()

set_property(TEST test_install test_package test_image test_image_cuda PROPERTY RESOURCE_LOCK installed) # all write build/installed

# Preloaded by test_held_*.py: a volume that does not answer; by test_training_patients.py: a disk with bad sectors.
foreach(name hold_volume failing_reads)
  add_library(${name} SHARED ${CMAKE_SOURCE_DIR}/tests/integration/held/${name}.c)
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS})
  add_dependencies(unit_programs ${name}) # so that building the tests builds it
endforeach()

# Preloaded by tests/chaos: a wall clock that is stepped.
add_library(step_clock SHARED ${CMAKE_SOURCE_DIR}/tests/chaos/step_clock.c)
set_target_properties(step_clock PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(step_clock PRIVATE ${CMAKE_DL_LIBS})

# tests/gpu: programs for a machine with a GPU; elsewhere they are shown as skipped. The CUDA kernels also run emulated on the processor
# (tests/gpu/emulator), under the op tests that every backend must pass.
file(GLOB gpu_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/gpu/test_*.c)
foreach(source ${gpu_tests})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source} ${line_buffered})
  target_link_libraries(${name} PRIVATE brr_kinds)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  brr_test(${name} COMMAND $<TARGET_FILE:${name}> LABELS gpu # seeds: the emulated ones below
           ENVIRONMENT BRR_CUDA_LIBRARY=${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libbrr_cuda.so)
endforeach()
target_link_options(test_gpu_devices PRIVATE -Wl,--wrap=clock_ms) # time as the test says
if(BRR_CUDA_BUILT) # what the compiler made of the kernels, without a GPU
  foreach(check check_ptx check_resources)
    brr_test(${check} COMMAND ${CMAKE_SOURCE_DIR}/tests/gpu/${check}.py ${CMAKE_BINARY_DIR}/cuda LABELS gpu)
  endforeach()
endif()
find_program(BRR_CXX NAMES g++)
if(BRR_CXX AND NOT BRR_SANITIZE AND NOT BRR_FUZZ)
  set(emulator_flags -std=c++20 -O1 -g -fPIC -fvisibility=hidden -D_GNU_SOURCE -DSPIKE_LIST_BLOCKS=2 -DTAPS_COLUMN_LIMIT=16384 -Wall -Wextra -Werror -Wno-unknown-pragmas
      -ffp-contract=off -I${CMAKE_SOURCE_DIR}/tests/gpu/emulator -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/lib)
  file(GLOB emulated_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu ${CMAKE_SOURCE_DIR}/kernels/cuda/*/*.cu)
  list(FILTER emulated_sources EXCLUDE REGEX "/cudnn\\.cu$")
  file(GLOB emulator_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.h ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cuh ${CMAKE_SOURCE_DIR}/kernels/cuda/*/*.cuh ${CMAKE_SOURCE_DIR}/tests/gpu/emulator/*.h)
  file(GLOB emulator_parts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/gpu/emulator/*.cc)
  set(plain_objects)
  set(checked_objects)
  foreach(source ${emulator_parts} ${emulated_sources})
    get_filename_component(name ${source} NAME_WE)
    foreach(kind plain checked)
      set(flags -O2)
      file(STRINGS ${source} kernels REGEX "__global__ void")
      if(kernels AND kind STREQUAL "checked")
        # The calls go to the emulator's checker. A vector is one access, whose alignment counts, not one of each element.
        set(flags -fsanitize=thread --param tsan-instrument-func-entry-exit=0 -fno-tree-sra)
      endif()
      set(object ${CMAKE_BINARY_DIR}/emulated/${kind}/${name}.o)
      add_custom_command(OUTPUT ${object} DEPENDS ${source} ${emulator_headers} VERBATIM COMMENT "Building emulated ${name}, ${kind}"
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/emulated/${kind}
        COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${BRR_CXX} ${emulator_flags} ${flags} -x c++ -c ${source} -o ${object})
      if(NOT name STREQUAL "test_emulator")
        list(APPEND ${kind}_objects ${object})
      endif()
      if(NOT kernels) # one object serves both
        list(APPEND checked_objects ${object})
        break()
      endif()
    endforeach()
  endforeach()
  add_library(brr_emulated_base OBJECT ${CMAKE_SOURCE_DIR}/base/err.c ${CMAKE_SOURCE_DIR}/base/str.c
    ${CMAKE_SOURCE_DIR}/kernels/tensor.c)
  target_include_directories(brr_emulated_base PRIVATE ${CMAKE_SOURCE_DIR}/lib ${CMAKE_SOURCE_DIR})
  # libbrr_cuda_emulated.so for what needs a device; libbrr_cuda_checked.so, several times slower, for what is to find its mistakes.
  set(emulated_library ${CMAKE_BINARY_DIR}/tests/libbrr_cuda_emulated.so)
  set(checked_library ${CMAKE_BINARY_DIR}/tests/libbrr_cuda_checked.so)
  set(emulator_test ${CMAKE_BINARY_DIR}/tests/test_emulator)
  set(base_objects brr_emulated_base $<TARGET_OBJECTS:brr_emulated_base>)
  add_custom_command(OUTPUT ${emulated_library} DEPENDS ${plain_objects} ${base_objects} VERBATIM COMMAND_EXPAND_LISTS
    COMMENT "Linking libbrr_cuda_emulated.so" COMMAND ${BRR_CXX} -shared -o ${emulated_library} ${plain_objects} $<TARGET_OBJECTS:brr_emulated_base>)
  add_custom_command(OUTPUT ${checked_library} DEPENDS ${checked_objects} ${base_objects} VERBATIM COMMAND_EXPAND_LISTS
    COMMENT "Linking libbrr_cuda_checked.so" COMMAND ${BRR_CXX} -shared -o ${checked_library} ${checked_objects} $<TARGET_OBJECTS:brr_emulated_base>)
  set(test_object ${CMAKE_BINARY_DIR}/emulated/checked/test_emulator.o)
  add_custom_command(OUTPUT ${emulator_test} DEPENDS ${test_object} ${checked_objects} ${base_objects} VERBATIM COMMAND_EXPAND_LISTS
    COMMENT "Linking test_emulator"
    COMMAND ${BRR_CXX} -o ${emulator_test} ${test_object} ${checked_objects} $<TARGET_OBJECTS:brr_emulated_base>)
  add_custom_target(brr_cuda_emulated ALL DEPENDS ${emulated_library} ${checked_library} ${emulator_test})
  brr_test(test_emulator COMMAND ${emulator_test} LABELS emulated seeded)
  # A management library with scripted answers, and one of an old driver; the emulated backend loads whichever comes first.
  foreach(kind nvml nvml_old)
    add_library(fake_${kind} SHARED ${CMAKE_SOURCE_DIR}/tests/gpu/emulator/nvml.c)
    set_target_properties(fake_${kind} PROPERTIES OUTPUT_NAME nvidia-ml SUFFIX .so.1 NO_SONAME ON
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/${kind})
    target_compile_options(fake_${kind} PRIVATE -fvisibility=default)
    add_executable(test_${kind} ${CMAKE_SOURCE_DIR}/tests/gpu/emulator/test_nvml.c)
    target_link_libraries(test_${kind} PRIVATE brr_kernels PkgConfig::CMOCKA)
    target_include_directories(test_${kind} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    set_target_properties(test_${kind} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    brr_test(emulated_${kind} COMMAND $<TARGET_FILE:test_${kind}> LABELS emulated
             ENVIRONMENT BRR_CUDA_LIBRARY=${emulated_library} LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/${kind})
  endforeach()
  target_compile_definitions(fake_nvml_old PRIVATE FAKE_NVML_OLD)
  target_compile_definitions(test_nvml_old PRIVATE FAKE_NVML_OLD)
  foreach(name test_scan_conv test_scan_reference test_op_windows test_augment test_op_geodesic test_burst test_burst_bits test_burst_change test_burst_state test_burst_synapses test_burst_ranks test_geodesic_fit test_ops_vs_cpu test_scan_library test_network_vs_cpu test_batch test_weights test_recordings test_fault test_profile)
    set(library ${checked_library})
    if(name MATCHES "^test_(geodesic_fit|recordings|burst_ranks)$") # they compute for minutes in the checked build
      set(library ${emulated_library})
    endif()
    brr_test(emulated_${name} COMMAND $<TARGET_FILE:${name}> LABELS emulated seeded # the order of threads too
             ENVIRONMENT BRR_TEST_DEVICE=cuda:0 BRR_TEST_MODEL=mini BRR_CUDA_LIBRARY=${library})
  endforeach()
  brr_test(emulated_test_live COMMAND $<TARGET_FILE:test_live> LABELS emulated
           ENVIRONMENT BRR_TEST_DEVICE=cuda:0 BRR_TEST_FILTER=replays_* BRR_CUDA_LIBRARY=${emulated_library})
  brr_test(emulated_test_networks COMMAND $<TARGET_FILE:test_networks> LABELS emulated
           ENVIRONMENT BRR_TEST_DEVICE=cuda:0 BRR_TEST_FILTER=devices_share_* BRR_CUDA_LIBRARY=${emulated_library})
  brr_test(emulated_test_evaluation COMMAND $<TARGET_FILE:test_evaluation> LABELS emulated # counts of launches and waits
           ENVIRONMENT BRR_TEST_DEVICE=cuda:0 BRR_EMULATED_KERNELS=0 BRR_CUDA_LIBRARY=${emulated_library})
  # `./dev gpu` finds its programs, and the cases that it asks brr-bench for.
  brr_test(emulated_gpu_checks COMMAND bash ${CMAKE_SOURCE_DIR}/tools/gpu.sh check ${CMAKE_BINARY_DIR} ${CMAKE_BINARY_DIR}/tests/gpu.json smoke ops
           LABELS emulated ENVIRONMENT BRR_EMULATED_KERNELS=0 "BRR_GPU_ONLY=^(starts|ops-geodesic.*)" BRR_CUDA_LIBRARY=${emulated_library})
  # Ranks on eight GPUs that read one another's memory: the small network in the checked library.
  brr_test(emulated_test_burst_gpus COMMAND $<TARGET_FILE:test_burst_ranks> LABELS emulated seeded
           ENVIRONMENT BRR_EMULATED_DEVICES=8 BRR_TEST_SPREAD=1 BRR_TEST_FILTER=neurons_* BRR_CUDA_LIBRARY=${checked_library})
  brr_test(emulated_test_burst_gpus_delays COMMAND $<TARGET_FILE:test_burst_ranks> LABELS emulated seeded
           ENVIRONMENT BRR_EMULATED_DEVICES=8 BRR_TEST_SPREAD=1 BRR_TEST_FILTER=so_it_does_with* BRR_TEST_MODEL=mini BRR_CUDA_LIBRARY=${emulated_library})
  # libnccl.so.2 is the emulator itself.
  add_custom_command(TARGET brr_cuda_emulated POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/tests/nccl
    COMMAND ${CMAKE_COMMAND} -E create_symlink ${checked_library} ${CMAKE_BINARY_DIR}/tests/nccl/libnccl.so.2)
  brr_test(emulated_test_gpu_exchange COMMAND $<TARGET_FILE:test_gpu_exchange> LABELS emulated seeded
           ENVIRONMENT BRR_EMULATED_DEVICES=4 BRR_CUDA_LIBRARY=${checked_library} LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/nccl)
  # Three devices, the second of which is too old.
  brr_test(emulated_test_gpu_devices COMMAND $<TARGET_FILE:test_gpu_devices> LABELS emulated seeded
           ENVIRONMENT BRR_EMULATED_DEVICES=3 BRR_EMULATED_OLD=1 BRR_CUDA_LIBRARY=${checked_library})
endif()
