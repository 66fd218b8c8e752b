# tools: one program per file tools/NAME.c (edfgen, brr-op, brr-bench, ...).
file(GLOB tool_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/*.c)
foreach(source ${tool_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE brr_run)
endforeach()
