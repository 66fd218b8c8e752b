/* descriptors: every .proto file of this folder as one google.protobuf.FileDescriptorSet, packed at build time. */
#pragma once
#include <stddef.h>
#include <stdint.h>

extern const uint8_t proto_descriptors[];
extern const size_t proto_descriptors_len;
