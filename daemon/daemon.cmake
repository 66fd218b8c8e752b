# daemon: brrd.
brr_floor(brr_daemon DIRS daemon/backup daemon/device daemon/db daemon/journal daemon/alarms daemon/hooks daemon/viewer daemon/live daemon/burst daemon/hosts daemon/models daemon/jobs daemon/rpc daemon/services daemon/status daemon/page daemon/http LINK brr_kinds brr_trust brr_post brr_proto_json PkgConfig::UV PkgConfig::GRPC PkgConfig::SQLITE PkgConfig::MICROHTTPD)

# The tables of RPC methods: svc_NAME.c defines svc_NAME[], which daemon/services/services.c finds in this list.
file(GLOB services RELATIVE ${CMAKE_SOURCE_DIR}/daemon/services CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/daemon/services/svc_*.c)
string(REGEX REPLACE "(svc_[a-z0-9_]+)\\.c;?" "SERVICE(\\1)\n" services "${services}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/services/services.def CONTENT "${services}" @ONLY)
target_include_directories(brr_daemon PUBLIC ${CMAKE_BINARY_DIR}/services)

# Style, script and icon of the pages, as bytes in the program.
set(page_assets ${CMAKE_BINARY_DIR}/page/assets.c)
file(GLOB page_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/daemon/page/assets/*)
add_custom_command(OUTPUT ${page_assets} COMMAND ${CMAKE_COMMAND} -DOUT=${page_assets} -DDIR=${CMAKE_SOURCE_DIR}/daemon/page/assets -P ${CMAKE_SOURCE_DIR}/daemon/page/assets/embed.cmake
  DEPENDS ${page_files} VERBATIM)
target_sources(brr_daemon PRIVATE ${page_assets})

file(GLOB brrd_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/daemon/*.c)
add_executable(brrd ${brrd_sources})
target_link_libraries(brrd PRIVATE brr_revision brr_daemon PkgConfig::MICROHTTPD)
target_compile_definitions(brrd PRIVATE BRR_VERSION="${PROJECT_VERSION}")
