/* order: comparisons for sorted arrays. Each returns a negative number, 0 or a positive number, as qsort and bsearch need it.
 * Numbers are compared and not subtracted, so nothing overflows. A NaN comes after every number and equals every NaN; -0 equals 0.
 * For a descending order swap the arguments. Any thread. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline int order_i64(int64_t a, int64_t b) { return (a > b) - (a < b); }
static inline int order_u64(uint64_t a, uint64_t b) { return (a > b) - (a < b); }
static inline int order_f64(double a, double b) { return (a > b) - (a < b) + (isnan(a) != 0) - (isnan(b) != 0); }
/* The second comparison decides where the first finds no difference. */
static inline int order_then(int first, int second) { return first ? first : second; }

/* Comparisons for qsort and bsearch, named after the items of the array; strings: of char *. */
static inline int order_f32s(const void *a, const void *b) { return order_f64(*(const float *)a, *(const float *)b); }
static inline int order_f64s(const void *a, const void *b) { return order_f64(*(const double *)a, *(const double *)b); }
static inline int order_u32s(const void *a, const void *b) { return order_u64(*(const uint32_t *)a, *(const uint32_t *)b); }
static inline int order_u64s(const void *a, const void *b) { return order_u64(*(const uint64_t *)a, *(const uint64_t *)b); }
static inline int order_strings(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Sorts n items by such a comparison; there may be none, in an array that is NULL. */
#define SORT(items, n, order) ((n) > 0 ? qsort(items, (size_t)(n), sizeof *(items), order) : (void)0)

/* Defines such a comparison of structs, with x and y for the items:
 *
 *     ORDER_BY(by_use, struct found, order_i64(x->used_ns, y->used_ns)) */
#define ORDER_BY(name, type, order)                                                                                                \
    static int name(const void *left, const void *right) {                                                                         \
        const type *x = left, *y = right;                                                                                          \
        return order;                                                                                                              \
    }
