#include "base/pack.h"

#include <string.h>

void pack_i64(struct str *out, int64_t value) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)value >> (8 * i));
    str_append(out, bytes, sizeof bytes);
}

void pack_f64(struct str *out, double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    pack_i64(out, bits);
}

void pack_bytes(struct str *out, const void *data, size_t len) {
    pack_i64(out, (int64_t)len);
    if (len)
        str_append(out, data, len);
}

void pack_text(struct str *out, const char *text) { pack_bytes(out, text, strlen(text)); }

struct unpack unpack_of(const void *data, size_t len) {
    return (struct unpack){.at = data, .left = len};
}

void unpack_require(struct unpack *u, bool condition) { u->failed = u->failed || !condition; }

static const uint8_t *take(struct unpack *u, size_t len) {
    unpack_require(u, len <= u->left);
    if (u->failed)
        return NULL;
    const uint8_t *bytes = u->at;
    u->at += len;
    u->left -= len;
    return bytes;
}

static int64_t raw_i64(struct unpack *u) {
    const uint8_t *bytes = take(u, 8);
    uint64_t value = 0;
    for (int i = 0; bytes && i < 8; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return (int64_t)value;
}

int64_t unpack_i64(struct unpack *u, int64_t min, int64_t max) {
    int64_t value = raw_i64(u);
    unpack_require(u, value >= min && value <= max);
    return u->failed ? 0 : value;
}

double unpack_f64(struct unpack *u) {
    int64_t bits = raw_i64(u);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool unpack_bool(struct unpack *u) { return unpack_i64(u, 0, 1); }

const void *unpack_view(struct unpack *u, size_t max, size_t *ret_len) {
    int64_t len = unpack_i64(u, 0, (int64_t)(max < INT64_MAX ? max : INT64_MAX));
    const void *bytes = take(u, (size_t)len);
    *ret_len = bytes ? (size_t)len : 0;
    return bytes;
}

void unpack_bytes(struct unpack *u, void *dst, size_t len) {
    size_t found;
    const void *bytes = unpack_view(u, len, &found);
    unpack_require(u, found == len);
    if (len && u->failed)
        memset(dst, 0, len);
    else if (len)
        memcpy(dst, bytes, len);
}

void unpack_text(struct unpack *u, char *dst, size_t size) {
    size_t len;
    const void *bytes = unpack_view(u, size - 1, &len);
    if (len)
        memcpy(dst, bytes, len);
    dst[len] = '\0';
    unpack_require(u, strlen(dst) == len);
}

void unpack_double(struct unpack *u, double *to, size_t size) { (void)size, *to = unpack_f64(u); }
void unpack_flag(struct unpack *u, bool *to, size_t size) { (void)size, *to = unpack_bool(u); }

void unpack_same(struct unpack *u, int64_t expected) { unpack_i64(u, expected, expected); }

bool unpack_done(const struct unpack *u) { return !u->failed && u->left == 0; }

int64_t packed_i64(struct packer *p, int64_t value, int64_t min, int64_t max) {
    if (!p->to)
        return unpack_i64(&p->from, min, max);
    pack_i64(p->to, value);
    return value;
}

void packed_count(struct packer *p, int64_t *value) { *value = packed_i64(p, *value, 0, PACKED_FAR); }

void packed_flag(struct packer *p, bool *value, size_t size) { (void)size, *value = packed_i64(p, *value, 0, 1); }

void packed_double(struct packer *p, double *value, size_t size) {
    (void)size;
    if (p->to)
        pack_f64(p->to, *value);
    else
        *value = unpack_f64(&p->from);
}

void packed_float(struct packer *p, float *value, size_t size) {
    double wide = (double)*value;
    packed_double(p, &wide, size);
    *value = (float)wide;
}

void packed_text(struct packer *p, char *text, size_t size) {
    if (p->to)
        pack_text(p->to, text);
    else
        unpack_text(&p->from, text, size);
}

void packed_bytes(struct packer *p, void *data, size_t len) {
    if (p->to)
        pack_bytes(p->to, data, len);
    else
        unpack_bytes(&p->from, data, len);
}

void packed_same(struct packer *p, int64_t expected) { (void)packed_i64(p, expected, expected, expected); }

void packed_require(struct packer *p, bool condition) { unpack_require(&p->from, condition || p->to); }
