#include "base/str.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void str_init(struct str *s, size_t max) { *s = str_of(max); }

void str_done(struct str *s) {
    free(s->data);
    *s = (struct str){.max = s->max};
}

void str_clear(struct str *s) {
    s->len = 0;
    s->overflow = false;
    if (s->data)
        s->data[0] = '\0';
}

const char *str_cstr(const struct str *s) { return s->data ? s->data : ""; }

/* Room for `extra` more bytes and the NUL; false marks the overflow. */
static bool reserve(struct str *s, size_t extra) {
    if (extra > s->max - s->len || extra > SIZE_MAX / 4 || s->len > SIZE_MAX / 4) {
        s->overflow = true;
        return false;
    }
    size_t wanted = s->len + extra + 1;
    if (wanted <= s->cap)
        return true;
    size_t cap = s->cap ? s->cap : 64;
    while (cap < wanted)
        cap *= 2;
    char *data = realloc(s->data, cap);
    if (!data) {
        s->overflow = true;
        return false;
    }
    s->data = data;
    s->cap = cap;
    return true;
}

void str_reserve(struct str *s, size_t extra) {
    if (extra > s->max - s->len || s->len + extra < s->cap)
        return;
    char *data = realloc(s->data, s->len + extra + 1);
    if (!data)
        return;
    s->data = data;
    s->cap = s->len + extra + 1;
    s->data[s->len] = '\0';
}

void str_append(struct str *s, const void *bytes, size_t len) {
    if (s->overflow)
        return;
    size_t fits = len > s->max - s->len ? s->max - s->len : len;
    if (!reserve(s, fits))
        return;
    if (fits)
        memcpy(s->data + s->len, bytes, fits);
    s->len += fits;
    s->data[s->len] = '\0';
    if (fits < len)
        s->overflow = true;
}

void str_puts(struct str *s, const char *text) { str_append(s, text, strlen(text)); }

const char *str_or_empty(const char *text) {
    if (!text && getenv("BRR_STOP_AT_NULL")) // NOLINT(concurrency-mt-unsafe): nobody sets the environment
        __builtin_trap();
    return text ? text : "";
}

/* Passes over the argument of a specification, which ends with `kind`. True: it is a NULL text. */
static bool is_null_text(const char *spec, char kind, va_list *ap) {
    const bool is_long = strpbrk(spec, "lzjt") != NULL;
    if (kind == 's')
        return !va_arg(*ap, const char *);
    if (kind == 'p')
        (void)va_arg(*ap, void *);
    else if (strchr("aAeEfFgG", kind))
        (void)(strchr(spec, 'L') ? (double)va_arg(*ap, long double) : va_arg(*ap, double));
    else if (is_long)
        (void)va_arg(*ap, long long);
    else
        (void)va_arg(*ap, int);
    return false;
}

/* True if the argument of a %s is NULL; the C library would write "(null)" for it. */
static bool has_null_text(const char *fmt, va_list ap) {
    bool found = false;
    va_list args;
    va_copy(args, ap);
    while (!found && *(fmt += strcspn(fmt, "%"))) {
        char spec[32];
        const size_t n = strcspn(fmt + 1, "diouxXcspaAeEfFgG%") + 1;
        str_format(spec, sizeof spec, "%.*s", (int)n, fmt);
        for (const char *star = spec; (star = strchr(star, '*')); star++)
            (void)va_arg(args, int);
        if (fmt[n] != '%')
            found = is_null_text(spec, fmt[n], &args);
        fmt += n + (fmt[n] != '\0');
    }
    va_end(args);
    return found;
}

/* Removes every occurrence of `what` and returns the new length of text. */
static int remove_all(char *text, const char *what) {
    const size_t len = strlen(what);
    for (char *at = text; (at = strstr(at, what));)
        memmove(at, at + len, strlen(at + len) + 1);
    return (int)strlen(text);
}

void str_vprintf(struct str *s, const char *fmt, va_list ap) {
    char small[512], *text = small;
    va_list again, texts;
    va_copy(again, ap);
    va_copy(texts, ap);
    int len = vsnprintf(small, sizeof small, fmt, ap);
    if (len >= (int)sizeof small && (text = malloc((size_t)len + 1)))
        vsnprintf(text, (size_t)len + 1, fmt, again);
    if (text && len >= 0 && strstr(text, "(null)") && has_null_text(fmt, texts)) {
        (void)str_or_empty(NULL); /* a test stops here */
        len = remove_all(text, "(null)");
    }
    if (!text)
        s->overflow = true;
    else if (len >= 0)
        str_append(s, text, (size_t)len);
    if (text != small)
        free(text);
    va_end(texts);
    va_end(again);
}

void str_printf(struct str *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(s, fmt, ap);
    va_end(ap);
}

void str_put_list(struct str *s, const char *list, const char *between, size_t room) {
    enum { MORE = 14 }; /* " and 1000 more" */
    size_t step = strlen(between), fits = 0, len = strlen(list);
    int more = 0;
    for (const char *at = list; *at;) {
        const char *next = strstr(at, between);
        size_t end = (size_t)((next ? next : list + len) - list);
        if (!fits || end + MORE <= room || len <= room)
            fits = end;
        else
            more++;
        at = next ? next + step : list + len;
    }
    str_append(s, list, fits);
    if (more)
        str_printf(s, " and %d more", more);
}

char *str_take(struct str *s) {
    char *data = NULL;
    if (!s->overflow)
        data = s->data ? s->data : calloc(1, 1);
    else
        free(s->data);
    *s = (struct str){.max = s->max};
    return data;
}

void str_cut_utf8(char *text) {
    size_t len = strlen(text), at = len;
    while (at && len - at < 3 && ((unsigned char)text[at - 1] & 0xC0) == 0x80)
        at--;
    if (!at)
        return;
    const unsigned char lead = (unsigned char)text[at - 1];
    const size_t wanted = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (len - at + 1 < wanted)
        text[at - 1] = '\0';
}

bool str_copy(char *dst, size_t size, const char *src) {
    size_t len = strnlen(src, size);
    bool fits = len < size;
    if (!fits)
        len = size - 1;
    memcpy(dst, src, len);
    dst[len] = '\0';
    if (!fits)
        str_cut_utf8(dst);
    return fits;
}

bool str_format(char *dst, size_t size, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(dst, size, fmt, ap);
    va_end(ap);
    const bool fits = len >= 0 && (size_t)len < size;
    if (!fits && len >= 0 && size)
        str_cut_utf8(dst);
    return fits;
}

int str_index(const char *text, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(text, names[i]))
            return (int)i;
    return -1;
}

bool str_starts(const char *text, const char *prefix) { return !strncmp(text, prefix, strlen(prefix)); }

bool str_ends(const char *text, const char *suffix) {
    size_t a = strlen(text), b = strlen(suffix);
    return a >= b && !strcmp(text + a - b, suffix);
}

bool str_ends_nocase(const char *text, const char *suffix) {
    size_t a = strlen(text), b = strlen(suffix);
    return a >= b && !strcasecmp(text + a - b, suffix);
}

bool str_is_loopback(const char *address) {
    char host[64];
    struct in_addr v4;
    const char *colon = strrchr(address, ':');
    if (!colon || !str_format(host, sizeof host, "%.*s", (int)(colon - address), address))
        return false;
    return !strcmp(host, "localhost") || !strcmp(host, "[::1]") ||
           (inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127);
}

bool str_url_is_loopback(const char *url) {
    char address[80];
    const char *host = strstr(url, "://");
    const int len = host ? (int)strcspn(host + 3, "/?#") : 0;
    if (!host || memchr(host + 3, '@', (size_t)len) || !str_format(address, sizeof address - 2, "%.*s", len, host + 3))
        return false;
    const char *end = strrchr(address, ']');
    if (!strchr(end ? end : address, ':'))
        memcpy(address + len, ":0", 3);
    return str_is_loopback(address);
}

int str_utf8_step(const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80)
        return p[0] != 0;
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return 0;
    int n = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    bool overlong = (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xF0 && p[1] < 0x90);
    bool outside = (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF4 && p[1] > 0x8F); /* surrogates, past U+10FFFF */
    return overlong || outside ? 0 : n;
}

bool str_to_i64(const char *text, int64_t *ret) {
    if (!(isdigit((unsigned char)*text) || ((*text == '-' || *text == '+') && isdigit((unsigned char)text[1]))))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*end || errno)
        return false;
    *ret = value;
    return true;
}

bool str_to_u64(const char *text, uint64_t *ret) {
    if (!isdigit((unsigned char)*text))
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end || errno)
        return false;
    *ret = value;
    return true;
}

/* strtod with '.' as the decimal point whatever the locale of the thread; false when there is no memory for it
 * (glibc hands out its built-in C locale: no allocation). */
static bool c_strtod(const char *text, double *ret, char **ret_end) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c)
        return false;
    *ret = strtod_l(text, ret_end, c);
    freelocale(c);
    return true;
}

/* A number at the start of text, in the C locale; *ret_end past it. Finite, no leading blanks, no hex. */
static bool leading_f64(const char *text, double *ret, const char **ret_end) {
    const char *p = text + (*text == '-' || *text == '+');
    if (!(isdigit((unsigned char)*p) || (*p == '.' && isdigit((unsigned char)p[1]))) || (p[0] == '0' && (p[1] | 32) == 'x'))
        return false;
    char *end;
    double value;
    if (!c_strtod(text, &value, &end) || end == text || !isfinite(value))
        return false;
    *ret = value;
    *ret_end = end;
    return true;
}

bool str_to_f64(const char *text, double *ret) {
    double value;
    const char *end;
    if (!leading_f64(text, &value, &end) || *end)
        return false;
    *ret = value;
    return true;
}

void str_put_f64(struct str *s, double value) {
    char text[40] = "";
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = c ? uselocale(c) : (locale_t)0;
    for (int digits = 6; digits <= 17; digits++) {
        str_format(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    if (c) {
        uselocale(before);
        freelocale(c);
    }
    str_puts(s, text);
}

struct unit {
    const char *name;
    double factor;
};

/* A number followed by one of the units (the empty one included), in whole results up to 2^62. */
static bool with_unit(const char *text, const struct unit *units, size_t n, int64_t *ret) {
    double value;
    const char *end;
    if (!leading_f64(text, &value, &end) || value < 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(end, units[i].name))
            continue;
        double scaled = value * units[i].factor;
        if (scaled > 0x1p62)
            return false;
        *ret = (int64_t)llround(scaled);
        return true;
    }
    return false;
}

bool str_to_duration_ms(const char *text, int64_t *ret_ms) {
    static const struct unit units[] = {{"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}};
    if (!strcmp(text, "0")) {
        *ret_ms = 0;
        return true;
    }
    return with_unit(text, units, sizeof units / sizeof *units, ret_ms);
}

bool str_to_bytes(const char *text, int64_t *ret_bytes) {
    static const struct unit units[] = {{"", 1},         {"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20},
                                        {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"kB", 1e3},     {"KB", 1e3},
                                        {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
    return with_unit(text, units, sizeof units / sizeof *units, ret_bytes);
}

int str_distance(const char *a, const char *b) {
    enum { MAX = 32, LEN = 96 };
    size_t n = strlen(a), m = strlen(b);
    if (n >= LEN || m >= LEN)
        return MAX;
    int row[LEN];
    for (size_t j = 0; j <= m; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = best < row[j] + 1 ? best : row[j] + 1;
            best = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[m] < MAX ? row[m] : MAX;
}
