/* str: a growing byte string with a maximum length, and the text functions that all modules share.
 * One thread at a time. After an overflow the string keeps the bytes that fitted and str_ok() is false. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct str {
    char *data; /* NUL-terminated when not NULL */
    size_t len;
    size_t cap;
    size_t max; /* longest length allowed */
    bool overflow;
};

/* An empty string of at most max bytes; str_init makes it in place. */
static inline struct str str_of(size_t max) { return (struct str){NULL, 0, 0, max, false}; } /* C++ wants them all */
void str_init(struct str *s, size_t max);
void str_done(struct str *s);
void str_clear(struct str *s);
static inline bool str_ok(const struct str *s) { return !s->overflow; }
/* Returns the text, never NULL. Valid until the next change. */
const char *str_cstr(const struct str *s);
void str_append(struct str *s, const void *bytes, size_t len);
void str_puts(struct str *s, const char *text);
/* A NULL text for %s writes nothing, and stops the program where BRR_STOP_AT_NULL is set, as in tests. */
void str_printf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_vprintf(struct str *s, const char *fmt, va_list ap);
/* Appends a finite number in the fewest significant digits (at least 6 are tried) that read back equal, with '.' as the decimal
 * point in every locale. */
void str_put_f64(struct str *s, double value);
/* Appends a list of items that `between` separates, in about `room` bytes: the list is cut behind an item and ends with " and N
 * more". The first item is always whole. */
void str_put_list(struct str *s, const char *list, const char *between, size_t room);
/* Room for `extra` more bytes, so that appending them does not move the text; without memory nothing changes. */
void str_reserve(struct str *s, size_t extra);
/* Passes the malloc'd text to the caller, who frees it; s is empty afterwards. NULL after an overflow. */
char *str_take(struct str *s);

/* For texts that must not be NULL, such as those of a table: "" instead of NULL; with BRR_STOP_AT_NULL it stops. */
const char *str_or_empty(const char *text);
/* Removes an incomplete UTF-8 character from the end of a text that was truncated. */
void str_cut_utf8(char *text);
/* Copies, truncating between characters if needed, always NUL-terminated (size > 0). Returns false when the text was truncated. */
bool str_copy(char *dst, size_t size, const char *src);
/* snprintf, truncating like str_copy; returns false when the text was truncated. */
bool str_format(char *dst, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool str_starts(const char *text, const char *prefix);
bool str_ends(const char *text, const char *suffix);
bool str_ends_nocase(const char *text, const char *suffix); /* ASCII letters */
/* Returns the length of the UTF-8 character at text, 1 to 4 bytes; 0 at the NUL and for invalid UTF-8. */
int str_utf8_step(const char *text);
/* True for "HOST:PORT" whose host is localhost, [::1] or an IPv4 address of 127.0.0.0/8; false for any other name. */
bool str_is_loopback(const char *address);
/* True for an URL whose host, with a port or without, is one of these; false with a name of a user in it
 * ("http://localhost:x@other"). */
bool str_url_is_loopback(const char *url);
/* Parse the whole string, range-checked; no other characters may precede or follow. On false *ret is unchanged. */
bool str_to_i64(const char *text, int64_t *ret);
bool str_to_u64(const char *text, uint64_t *ret);
bool str_to_f64(const char *text, double *ret); /* finite only, '.' decimal point whatever the locale */
/* "250ms" "90s" "15m" "24h" "90d" "1.5h" → milliseconds. A number without a unit is none, but for 0. */
bool str_to_duration_ms(const char *text, int64_t *ret_ms);
/* "512MiB" "2TB" "10GB" or a plain number of bytes. */
bool str_to_bytes(const char *text, int64_t *ret_bytes);
/* The place of the text among n names, -1 for none of them. STR_AMONG: among all names of an array. */
int str_index(const char *text, const char *const *names, size_t n);
#define STR_AMONG(text, names) str_index(text, names, sizeof(names) / sizeof *(names))
/* For the end of a function like printf: writes its arguments into an array, truncating anywhere. */
#define STR_ARGUMENTS(array, fmt)                                                                                                  \
    do {                                                                                                                           \
        va_list arguments_;                                                                                                        \
        va_start(arguments_, fmt);                                                                                                 \
        vsnprintf(array, sizeof(array), fmt, arguments_);                                                                          \
        va_end(arguments_);                                                                                                        \
    } while (0)
/* Returns the edit distance, at most 32; used for "did you mean". */
int str_distance(const char *a, const char *b);
