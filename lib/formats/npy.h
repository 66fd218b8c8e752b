/* npy: the header of NumPy's *.npy files (format 1.0), behind which the values follow in C order. Pure, any thread. */
#pragma once
#include "base/base.h"

enum { NPY_HEADER_BYTES = 128 };
/* Writes the header of an array (rows, columns), or (rows,) if columns is 0. type: NumPy's name, for example "<f4". The length
 * never varies, so that the header can be written again when the number of rows is known. */
void npy_header(char header[NPY_HEADER_BYTES], const char *type, int64_t rows, int64_t columns);
