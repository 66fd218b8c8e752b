# client: the connection (gRPC behind one file) and brrctl.
brr_floor(brr_client DIRS client LINK brr_base PkgConfig::GRPC)
file(GLOB brrctl_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/client/brrctl/*.c)
add_executable(brrctl ${brrctl_sources})
target_link_libraries(brrctl PRIVATE brr_client brr_proto brr_run)
