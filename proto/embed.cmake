# cmake -DIN=FILE -DOUT=FILE.c -P embed.cmake: the bytes of IN as the C array that proto/descriptors.h declares.
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "#include \"proto/descriptors.h\"\nconst uint8_t proto_descriptors[] = {\n${bytes}};
const size_t proto_descriptors_len = sizeof proto_descriptors;\n")
