#include "daemon/page/html.h"

enum { SPEC_SIZE = 16 };
static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

void html_done(struct html *h) { str_done(&h->out); }

static const char *entity(char c) {
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

/* Characters that HTML forbids, and those that turn the direction of what follows. */
static bool is_forbidden(const char *at, int step) {
    const unsigned char *c = (const unsigned char *)at;
    if (step == 1)
        return (c[0] < 0x20 && c[0] != '\t' && c[0] != '\n') || c[0] == 0x7f;
    if (step == 2)
        return c[0] == 0xC2 && c[1] < 0xA0; /* U+0080 to U+009F */
    if (step == 3 && c[0] == 0xE2 && c[1] == 0x80)
        return c[2] >= 0xAA && c[2] <= 0xAE; /* U+202A to U+202E */
    if (step == 3 && c[0] == 0xEF && c[1] == 0xBF)
        return c[2] >= 0xBE;                                                          /* U+FFFE, U+FFFF */
    return step == 3 && c[0] == 0xE2 && c[1] == 0x81 && c[2] >= 0xA6 && c[2] <= 0xA9; /* U+2066 to U+2069 */
}

void html_put_text(struct html *h, const char *text, size_t len) {
    for (const char *at = text, *end = text + len; at < end;) {
        int step = str_utf8_step(at);
        const char *named = entity(*at);
        if (step < 1 || at + step > end || is_forbidden(at, step)) {
            str_puts(&h->out, replacement);
            step = step < 1 || at + step > end ? 1 : step;
        } else if (named) {
            str_puts(&h->out, named);
        } else {
            str_append(&h->out, at, (size_t)step);
        }
        at += step;
    }
}

/* Writes the argument of one specification, "%…X". */
static void put_argument(struct html *h, const char *spec, char kind, va_list *args) {
    const char *text;
    int digits = 0;
    switch (kind) {
    case 's':
        text = str_or_empty(va_arg(*args, const char *));
        html_put_text(h, text, strlen(text));
        break;
    case 'f':
        digits = spec[2] == '*' ? va_arg(*args, int) : spec[2] - '0'; /* %.Nf or %.*f */
        str_printf(&h->out, "%.*f", digits, va_arg(*args, double));
        break;
    case 'u': /* %zu */
        str_printf(&h->out, "%zu", va_arg(*args, size_t));
        break;
    default:
        if (strchr(spec, 'l'))
            str_printf(&h->out, "%lld", va_arg(*args, long long));
        else
            str_printf(&h->out, "%d", va_arg(*args, int));
    }
}

void html_put(struct html *h, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    while (*fmt) {
        size_t plain = strcspn(fmt, "%");
        str_append(&h->out, fmt, plain);
        fmt += plain;
        if (!*fmt)
            break;
        if (fmt[1] == '%') {
            str_puts(&h->out, "%");
            fmt += 2;
            continue;
        }
        char spec[SPEC_SIZE];
        size_t n = strcspn(fmt, "sfdu") + 1;
        str_format(spec, sizeof spec, "%.*s", (int)n, fmt);
        put_argument(h, spec, fmt[n - 1], &args);
        fmt += n;
    }
    va_end(args);
}

void html_put_url(struct html *h, const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (isalnum(*p) || strchr("-._~", *p))
            str_append(&h->out, p, 1);
        else
            str_printf(&h->out, "%%%02X", *p);
}
