# proto: C messages from proto/**.proto (protobuf-c), in the build folder only, and the descriptor set that reflection serves.
find_program(PROTOC protoc REQUIRED)
find_program(PROTOC_C protoc-c REQUIRED)
set(proto_out ${CMAKE_BINARY_DIR}/proto)
file(GLOB_RECURSE proto_files RELATIVE ${CMAKE_SOURCE_DIR}/proto CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/proto/*.proto)
set(proto_sources)
set(proto_inputs)
foreach(file ${proto_files})
  string(REGEX REPLACE "\\.proto$" "" stem ${file})
  set(outputs ${proto_out}/${stem}.pb-c.c ${proto_out}/${stem}.pb-c.h)
  add_custom_command(OUTPUT ${outputs}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${proto_out}
    COMMAND ${PROTOC_C} -I${CMAKE_SOURCE_DIR}/proto --c_out=${proto_out} ${CMAKE_SOURCE_DIR}/proto/${file}
    DEPENDS ${CMAKE_SOURCE_DIR}/proto/${file})
  list(APPEND proto_sources ${outputs})
  list(APPEND proto_inputs ${CMAKE_SOURCE_DIR}/proto/${file})
endforeach()

# All of them as one FileDescriptorSet, as bytes in the program (proto/descriptors.h).
set(descriptor_set ${proto_out}/descriptors.bin)
add_custom_command(OUTPUT ${proto_out}/descriptors.c
  COMMAND ${CMAKE_COMMAND} -E make_directory ${proto_out}
  COMMAND ${PROTOC} -I${CMAKE_SOURCE_DIR}/proto --include_imports --descriptor_set_out=${descriptor_set} ${proto_inputs}
  COMMAND ${CMAKE_COMMAND} -DIN=${descriptor_set} -DOUT=${proto_out}/descriptors.c -P ${CMAKE_SOURCE_DIR}/proto/embed.cmake
  DEPENDS ${proto_inputs} ${CMAKE_SOURCE_DIR}/proto/embed.cmake VERBATIM)

add_library(brr_proto STATIC ${proto_sources} ${proto_out}/descriptors.c)
target_include_directories(brr_proto SYSTEM PUBLIC ${proto_out} PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(brr_proto PRIVATE -w)
target_link_libraries(brr_proto PUBLIC PkgConfig::PROTOBUF_C)
brr_floor(brr_proto_json DIRS proto LINK brr_base brr_proto) # messages as JSON

# build/python: messages and stubs of the services for Python, with their types (.pyi), for client/python and programs of others.
find_program(GRPC_PYTHON_PLUGIN grpc_python_plugin REQUIRED)
set(python_out ${CMAKE_BINARY_DIR}/python)
add_custom_command(OUTPUT ${python_out}/stamp
  COMMAND ${CMAKE_COMMAND} -E make_directory ${python_out}
  COMMAND ${PROTOC} -I${CMAKE_SOURCE_DIR}/proto --python_out=${python_out} --pyi_out=${python_out}
    --grpc_python_out=${python_out} --plugin=protoc-gen-grpc_python=${GRPC_PYTHON_PLUGIN} ${proto_inputs}
  COMMAND ${CMAKE_COMMAND} -E touch ${python_out}/stamp
  DEPENDS ${proto_inputs} VERBATIM)
add_custom_target(python_messages ALL DEPENDS ${python_out}/stamp)
