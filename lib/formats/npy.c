#include "formats/npy.h"

void npy_header(char header[NPY_HEADER_BYTES], const char *type, int64_t rows, int64_t columns) {
    static const char start[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, NPY_HEADER_BYTES - 10, 0};
    char text[NPY_HEADER_BYTES], second[24] = "";
    if (columns)
        str_format(second, sizeof second, " %" PRId64, columns);
    str_format(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64 ",%s), }", type, rows, second);
    memcpy(header, start, sizeof start);
    str_format(header + sizeof start, NPY_HEADER_BYTES - sizeof start, "%-117s", text);
    header[NPY_HEADER_BYTES - 1] = '\n';
}
