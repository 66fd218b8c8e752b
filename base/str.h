/* str: a growing byte string with a hard maximum, and the few safe text helpers all files share.
 * One thread at a time. After an overflow the text keeps what fitted and str_ok() is false. */
#ifndef BRR_BASE_STR_H
#define BRR_BASE_STR_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str {
    char *data; /* NUL-terminated when not NULL */
    size_t len;
    size_t cap;
    size_t max; /* longest length allowed */
    bool overflow;
};

void str_init(struct str *s, size_t max);
void str_done(struct str *s);
void str_clear(struct str *s);
static inline bool str_ok(const struct str *s) { return !s->overflow; }
/* The text, never NULL. Valid until the next change. */
const char *str_cstr(const struct str *s);
void str_append(struct str *s, const void *bytes, size_t len);
void str_puts(struct str *s, const char *text);
void str_printf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_vprintf(struct str *s, const char *fmt, va_list ap);
/* A finite number in the fewest digits (6 at least asked for) that read back equal; '.' decimal point whatever the locale. */
void str_put_f64(struct str *s, double value);
/* Hand the malloc'd text over to the caller (free()); s is empty afterwards. NULL after overflow. */
char *str_take(struct str *s);

/* Copy with truncation, always terminated (size > 0). Returns false when it did not fit. */
bool str_copy(char *dst, size_t size, const char *src);
/* snprintf that says whether it fitted. */
bool str_format(char *dst, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool str_starts(const char *text, const char *prefix);
bool str_ends(const char *text, const char *suffix);
/* Bytes of the UTF-8 character at text, 1 to 4; 0 at the NUL and where the bytes are no UTF-8. */
int str_utf8_step(const char *text);
/* Whole-string parses: no leading/trailing rubbish, range-checked. false leaves *ret untouched. */
bool str_to_i64(const char *text, int64_t *ret);
bool str_to_u64(const char *text, uint64_t *ret);
bool str_to_f64(const char *text, double *ret); /* finite only, '.' decimal point whatever the locale */
/* "90s" "15m" "24h" "90d" "1.5h" or a plain number of seconds → milliseconds. */
bool str_to_duration_ms(const char *text, int64_t *ret_ms);
/* "512MiB" "2TB" "10GB" or a plain number of bytes. */
bool str_to_bytes(const char *text, int64_t *ret_bytes);
/* Edit distance capped at 32, for "did you mean". */
int str_distance(const char *a, const char *b);

#endif
