/* pack: the state of objects as bytes, for snapshots that another process restores. Values are little-endian and of fixed
 * width, written and read by the same sequence of calls; the reader checks every length and range and never reads past the
 * end. A snapshot's container adds version and checksum. One thread per text or reader. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/members.h"
#include "base/str.h"

void pack_i64(struct str *out, int64_t value);
void pack_f64(struct str *out, double value);
/* Length, then the bytes. */
void pack_bytes(struct str *out, const void *data, size_t len);
void pack_text(struct str *out, const char *text);
/* Members of a struct in this order, each as its type says: a text, a double or float, else an integer. */
#define PACK(out, of, ...)           EACH_MEMBER(PACK_MEMBER, out, of, __VA_ARGS__)
#define PACK_MEMBER(out, of, member) PACK_TEXT_OR((of).member, PACK_REAL_OR((of).member, pack_i64))(out, (of).member);
#define PACK_TEXT_OR(member, other)  _Generic((member), char * : pack_text, const char * : pack_text, default : other)
#define PACK_REAL_OR(member, other)  _Generic((member), double : pack_f64, float : pack_f64, default : other)

/* After a failed call `failed` stays set and every later call returns zeros, so callers check once at the end. */
struct unpack {
    const uint8_t *at;
    size_t left;
    bool failed;
};
struct unpack unpack_of(const void *data, size_t len);
/* Fails for values outside [min, max]. */
int64_t unpack_i64(struct unpack *u, int64_t min, int64_t max);
double unpack_f64(struct unpack *u);
bool unpack_bool(struct unpack *u);
/* Fails unless exactly len bytes were packed; dst is zeroed then. */
void unpack_bytes(struct unpack *u, void *dst, size_t len);
/* Borrows bytes of any length up to max from the input; NULL and 0 on failure. */
const void *unpack_view(struct unpack *u, size_t max, size_t *ret_len);
/* Fails unless the text fits with its NUL. */
void unpack_text(struct unpack *u, char *dst, size_t size);
/* Members of a struct, texts, doubles and bools, as PACK wrote them; numbers with limits are read one by one. */
#define UNPACK(u, to, ...)           EACH_MEMBER(UNPACK_MEMBER, u, to, __VA_ARGS__)
#define UNPACK_MEMBER(u, to, member) UNPACKER((to).member)(u, (void *)&(to).member, sizeof(to).member);
#define UNPACKER(member)             _Generic((member), char * : unpack_text, double : unpack_double, bool : unpack_flag)
void unpack_double(struct unpack *u, double *to, size_t size);
void unpack_flag(struct unpack *u, bool *to, size_t size);
/* Fails unless the packed value equals `expected`: for what the restored object was made with. */
void unpack_same(struct unpack *u, int64_t expected);
/* Marks the input as invalid when `condition` is false. */
void unpack_require(struct unpack *u, bool condition);
/* True if nothing failed and all input was read. */
bool unpack_done(const struct unpack *u);

/* One function for both directions, so that the reader of a state cannot differ from its writer: values are written to
 * `to`, or, where that is NULL, replaced by what is read from `from`, as above. Limits and requirements hold for what is
 * read. */
struct packer {
    struct str *to;
    struct unpack from;
};
/* An integer, bool or enum. */
#define PACKED(p, value, min, max) ((value) = (__typeof__(value))packed_i64(p, (int64_t)(value), min, max))
/* Members of a struct in this order: texts, doubles, floats and bools; and numbers (int64_t) from 0 to PACKED_FAR. */
#define PACKED_FAR                   (INT64_C(1) << 60)
#define PACKED_MEMBERS(p, of, ...)   EACH_MEMBER(PACKED_MEMBER, p, of, __VA_ARGS__)
#define PACKED_COUNTS(p, of, ...)    EACH_MEMBER(PACKED_COUNT, p, of, __VA_ARGS__)
#define PACKED_MEMBER(p, of, member) PACKED_AS((of).member)(p, (void *)&(of).member, sizeof(of).member);
#define PACKED_COUNT(p, of, member)  packed_count(p, &(of).member);
#define PACKED_AS(member)            _Generic((member), char * : packed_text, double : packed_double, PACKED_SMALL)
#define PACKED_SMALL                 float : packed_float, bool : packed_flag
int64_t packed_i64(struct packer *p, int64_t value, int64_t min, int64_t max);
void packed_count(struct packer *p, int64_t *value);
void packed_text(struct packer *p, char *text, size_t size);
void packed_double(struct packer *p, double *value, size_t size);
void packed_float(struct packer *p, float *value, size_t size);
void packed_flag(struct packer *p, bool *value, size_t size);
/* So many bytes, which the reader knows. */
void packed_bytes(struct packer *p, void *data, size_t len);
void packed_same(struct packer *p, int64_t expected);
void packed_require(struct packer *p, bool condition);
