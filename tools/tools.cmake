# tools: one program per file tools/NAME.c (edfgen, brr-bench, ...), with the parts of tools/NAME/ where there is such a folder.
# NAME_LINK: what a tool needs when that is less than everything.
set(edfgen_LINK brr_windows)
set(brr-load_LINK brr brr_proto brr_base)
file(GLOB tool_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/*.c)
foreach(source ${tool_sources})
  get_filename_component(name ${source} NAME_WE)
  file(GLOB parts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/${name}/*.c)
  add_executable(${name} ${source} ${parts})
  target_link_libraries(${name} PRIVATE "$<IF:$<BOOL:${${name}_LINK}>,${${name}_LINK},brr_kinds>")
endforeach()
target_include_directories(brr-load PRIVATE ${CMAKE_SOURCE_DIR}/tools)
set_target_properties(brr-load PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
target_link_libraries(brr-bench PRIVATE brr_revision)
