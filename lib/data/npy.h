/* npy: the header of NumPy's *.npy files (format 1.0), behind which the values follow in C order. Pure, any thread. */
#ifndef BRR_DATA_NPY_H
#define BRR_DATA_NPY_H
#include <stdint.h>

enum { NPY_HEADER_BYTES = 128 };
/* Of an array (rows, columns), or (rows,) if columns is 0; type is such as "<f4". Its length is always the same, so that it can be
 * written again once the number of rows is known. */
void npy_header(char header[NPY_HEADER_BYTES], const char *type, int64_t rows, int64_t columns);

#endif
