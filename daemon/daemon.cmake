# daemon: brrd.
brr_floor(brr_daemon DIRS daemon/backup daemon/device daemon/db daemon/journal daemon/hooks daemon/live daemon/burst daemon/hosts daemon/models daemon/jobs daemon/rpc LINK brr_run brr_trust brr_proto PkgConfig::UV PkgConfig::GRPC PkgConfig::SQLITE)
add_executable(brrd daemon/main.c daemon/check.c daemon/server.c daemon/config.c daemon/config_hooks.c daemon/http.c daemon/access.c daemon/reload.c daemon/drain.c daemon/meters.c daemon/notify.c daemon/paths.c daemon/run_command.c daemon/restore.c daemon/user_daemon.c daemon/versions.c daemon/metrics_table.c)
target_link_libraries(brrd PRIVATE brr_daemon PkgConfig::MICROHTTPD)
target_compile_definitions(brrd PRIVATE BRR_VERSION="${PROJECT_VERSION}" BRR_REVISION="${BRR_REVISION}")
