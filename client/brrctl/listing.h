/* listing: a list for people, whose columns are as wide as their widest cell: no name is cut, and no row is shifted. */
#pragma once
#include "base/base.h"

enum { LISTING_COLUMNS = 16 };

struct listing {
    struct str text; /* its cells, the titles first */
    const char *titles;
    int rows;
};
/* titles: "client|>events|detail"; a title behind '>' and its cells stand at the right. Kept until listing_end. */
void listing_begin(struct listing *l, const char *titles);
/* A row: printf of its cells with '|' between them, which the values may have themselves. */
void listing_row(struct listing *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints titles and rows, unless there is no row; frees the text. */
void listing_end(struct listing *l);
