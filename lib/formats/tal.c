#include "formats/tal.h"

#include "formats/text.h"

enum { MARK_TEXT = 0x14, MARK_DURATION = 0x15 };

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

static const double MAX_SECONDS = 1e10; /* three centuries: sample numbers stay far inside 63 bits */

/* digits[.digits] with an optional sign; end of the number, or NULL. Correctly rounded up to 15 digits. */
static const uint8_t *parse_number(const uint8_t *p, const uint8_t *end, bool need_sign, double *ret) {
    bool negative = false;
    if (p < end && (*p == '+' || *p == '-'))
        negative = *p++ == '-';
    else if (need_sign)
        return NULL;
    double mantissa = 0, scale = 1;
    size_t digits = 0;
    for (; p < end && is_digit(*p); p++, digits++)
        mantissa = mantissa * 10 + (*p - '0');
    if (p < end && (*p == '.' || *p == ','))
        for (p++; p < end && is_digit(*p); p++, digits++)
            if (scale < 1e15) {
                mantissa = mantissa * 10 + (*p - '0');
                scale *= 10;
            }
    mantissa /= scale;
    if (!digits || mantissa > MAX_SECONDS)
        return NULL;
    *ret = negative ? -mantissa : mantissa;
    return p;
}

/* onset [0x15 duration] followed by 0x14: the byte after it, or NULL. */
static const uint8_t *parse_head(const uint8_t *p, const uint8_t *end, double *ret_onset, double *ret_duration) {
    *ret_duration = NAN;
    p = parse_number(p, end, true, ret_onset);
    if (p && p < end && *p == MARK_DURATION) {
        p++;
        if (p < end && *p != MARK_TEXT) {
            p = parse_number(p, end, false, ret_duration);
            if (p && *ret_duration < 0)
                *ret_duration = NAN;
        }
    }
    return p && p < end && *p == MARK_TEXT ? p + 1 : NULL;
}

int tal_parse(const uint8_t *bytes, size_t len, tal_visit_fn *visit, void *ctx, size_t *ret_faults) {
    const uint8_t *p = bytes, *end = bytes + len;
    struct tal_item item = {0};
    size_t faults = 0, lists = 0;
    int rc = 0;
    while (p < end && !rc) {
        if (*p == 0) {
            p++;
            continue;
        }
        const uint8_t *next = parse_head(p, end, &item.onset_s, &item.duration_s);
        if (!next) {
            faults++;
            while (p < end && *p != 0)
                p++;
            continue;
        }
        p = next;
        item.list = lists++;
        item.first_text = true;
        /* Texts up to the NUL; a text that reads as another list's head starts that list (writers that omit the NUL). */
        do {
            const uint8_t *text = p;
            double onset, duration;
            if (!item.first_text && parse_head(p, end, &onset, &duration))
                break;
            while (p < end && *p != MARK_TEXT && *p != 0)
                p++;
            item.text = text;
            item.text_len = (size_t)(p - text);
            if (item.text_len || item.first_text)
                rc = visit(ctx, &item);
            item.first_text = false;
            if (p < end && *p == MARK_TEXT)
                p++;
        } while (!rc && p < end && *p != 0);
    }
    if (ret_faults)
        *ret_faults = faults;
    return rc;
}

/* Length of the valid UTF-8 sequence at p (no overlong forms, no surrogates), or 0. */
static size_t utf8_sequence(const uint8_t *p, const uint8_t *end) {
    size_t n = *p < 0x80 ? 1 : *p >= 0xC2 && *p <= 0xDF ? 2 : (*p & 0xF0) == 0xE0 ? 3 : *p >= 0xF0 && *p <= 0xF4 ? 4 : 0;
    if (!n || (size_t)(end - p) < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    if ((n == 3 && ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F))) ||
        (n == 4 && ((p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))))
        return 0;
    return n;
}

static bool is_utf8(const uint8_t *p, const uint8_t *end) {
    while (p < end) {
        size_t n = utf8_sequence(p, end);
        if (!n)
            return false;
        p += n;
    }
    return true;
}

static bool is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t tal_text(char *out, size_t size, const uint8_t *bytes, size_t len, bool *ret_foreign) {
    const uint8_t *p = bytes, *end = bytes;
    while ((size_t)(end - bytes) < len && *end)
        end++;
    while (p < end && is_blank(*p))
        p++;
    while (end > p && is_blank(end[-1]))
        end--;
    bool utf8 = is_utf8(p, end), foreign = false;
    size_t n = 0;
    if (!utf8 && size && text_convert((const char *)p, (size_t)(end - p), out, size)) {
        for (char *c = out; *c; c++)
            *c = is_blank((uint8_t)*c) ? ' ' : (uint8_t)*c < 0x20 || *c == 0x7F ? '?' : *c;
        if (ret_foreign)
            *ret_foreign = true;
        return strlen(out);
    }
    while (p < end) {
        uint8_t c = *p;
        size_t step = utf8 ? utf8_sequence(p, end) : 1, width = utf8 ? step : c < 0x80 ? 1 : 2;
        foreign |= c < 0x20 || c > 0x7E;
        if (n + width + 1 > size)
            break;
        if (c < 0x80)
            out[n] = (char)(is_blank(c) ? ' ' : c < 0x20 || c == 0x7F ? '?' : c);
        else if (!utf8) {
            out[n] = (char)(0xC0 | (c >> 6));
            out[n + 1] = (char)(0x80 | (c & 0x3F));
        } else
            for (size_t i = 0; i < step; i++)
                out[n + i] = (char)p[i];
        n += width;
        p += step;
    }
    if (size)
        out[n] = '\0';
    if (ret_foreign)
        *ret_foreign |= foreign;
    return n;
}
