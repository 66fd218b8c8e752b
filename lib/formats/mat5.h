/* mat5: the variables of a MAT file of level 5 (MATLAB 5 to 7.2, Octave): structs, cells, texts and numbers, compressed or not.
 * Source: "MAT-File Format", The MathWorks. For lib/formats only. Sizes come from the file and are checked against it; large arrays
 * stay in the file and are described by their place. One thread per file. */
#pragma once

#include "base/arena.h"
#include "formats/filebytes.h"

enum mat_kind { MAT_NONE, MAT_NUMBERS, MAT_TEXT, MAT_CELL, MAT_STRUCT };

/* Where the numbers of an array are: in the file, or in the inflated bytes of a compressed element. */
struct mat_place {
    size_t element; /* offset of a compressed element's bytes in the file, and their number; 0: not compressed */
    size_t element_bytes;
    uint64_t offset; /* in the file, or in the inflated bytes */
    uint64_t bytes;
    int type; /* enum mat_type of a stored number */
};
enum mat_type {
    MAT_I8 = 1,
    MAT_U8 = 2,
    MAT_I16 = 3,
    MAT_U16 = 4,
    MAT_I32 = 5,
    MAT_U32 = 6,
    MAT_F32 = 7,
    MAT_F64 = 9,
    MAT_I64 = 12,
    MAT_U64 = 13
};

struct mat_value {
    enum mat_kind kind;
    int64_t rows, columns, n; /* of the first two dimensions; of all */
    const double *numbers;    /* (n); NULL: only `place` says where they are */
    struct mat_place place;
    const char *text;          /* MAT_TEXT: UTF-8 */
    const char *const *fields; /* MAT_STRUCT: (n_fields) names */
    int n_fields;
    struct mat_value *items; /* MAT_CELL: (n); MAT_STRUCT: (n · n_fields), the fields of each element together */
};

/* The start of a MAT file of level 5, little-endian; of any other level or order. */
bool mat_probe(const uint8_t *start, size_t n);
/* Reads the variables, and of every struct the fields, whose names are in wanted (NULL at the end; NULL: all); the others are
 * skipped, whatever is in them. *ret is a struct of one element. All of it lives in arena. INVALID for what is no such file. */
int mat_read(const struct filebytes *bytes, const char *const *wanted, struct arena *arena, struct mat_value *ret, struct err *err);
/* A field of element `index`; NULL when there is none, or value is no struct. */
const struct mat_value *mat_field(const struct mat_value *value, int64_t index, const char *name);
/* The first number, or `otherwise`; the text, or NULL. Take NULL; a cell of one value stands for it. */
double mat_number(const struct mat_value *value, double otherwise);
const char *mat_text(const struct mat_value *value);

/* Writes the inflated bytes of a compressed place to fd. */
int mat_inflate(const struct filebytes *bytes, const struct mat_place *place, int fd, struct err *err);
