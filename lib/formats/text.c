#include "formats/text.h"

#include <iconv.h>

size_t text_put_utf8(char *to, uint32_t code) {
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3F));
    to[0] = (char)(first[n] | code);
    return n;
}

/* UTF-16 behind its byte order mark as malloc'd UTF-8; a lone surrogate becomes U+FFFD. NULL without memory. */
static char *from_utf16(const uint8_t *data, size_t len, size_t *ret_len) {
    int high = data[0] == 0xFE ? 0 : 1;
    char *text = malloc(len / 2 * 3 + 1);
    size_t n = 0;
    for (size_t i = 2; text && i + 1 < len; i += 2) {
        uint32_t code = (uint32_t)data[i + (size_t)high] << 8 | data[i + 1 - (size_t)high];
        if (code >= 0xD800 && code < 0xDC00 && i + 3 < len) {
            uint32_t low = (uint32_t)data[i + 2 + (size_t)high] << 8 | data[i + 3 - (size_t)high];
            if (low >= 0xDC00 && low < 0xE000) {
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                i += 2;
            }
        }
        n += text_put_utf8(text + n, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
    }
    if (text)
        text[n] = '\0';
    *ret_len = n;
    return text;
}

/* Not UTF-8, and without a named encoding not UTF-8 with a damaged place either, which holds characters of several bytes. */
static bool is_other_bytes(const char *text, bool named) {
    bool wrong = false;
    while (*text) {
        const int n = str_utf8_step(text);
        if (n > 1 && !named)
            return false;
        wrong = wrong || !n;
        text += n > 1 ? n : 1;
    }
    return wrong;
}

/* Windows-1252 as malloc'd UTF-8; its five bytes without a character are the control characters of Latin-1. NULL without memory. */
static char *from_windows(const char *data, size_t len, size_t *ret_len) {
    static const uint16_t upper[32] = {0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021, 0x2C6,  0x2030, 0x160,
                                       0x2039, 0x152,  0x8D,   0x17D,  0x8F,   0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
                                       0x2013, 0x2014, 0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};
    char *text = malloc(3 * len + 1);
    size_t n = 0;
    for (size_t i = 0; text && i < len; i++) {
        const uint8_t byte = (uint8_t)data[i];
        n += text_put_utf8(text + n, byte >= 0x80 && byte < 0xA0 ? upper[byte - 0x80] : byte);
    }
    if (text)
        text[n] = '\0';
    *ret_len = n;
    return text;
}

bool text_convert(const char *bytes, size_t n, char *to, size_t size) {
    const char *named = getenv("BRR_TEXT_ENCODING");
    const iconv_t converter = named && *named ? iconv_open("UTF-8", named) : (iconv_t)-1;
    char *from = (char *)(uintptr_t)bytes;
    size_t left = size - 1;
    if (converter == (iconv_t)-1)
        return false;
    while (n && iconv(converter, &from, &n, &to, &left) == (size_t)-1 && errno != E2BIG && left) {
        from++; /* a byte that is none of the encoding */
        n--;
        *to++ = '?';
        left--;
    }
    *to = '\0';
    iconv_close(converter);
    return true;
}

/* In the encoding that was named, else as Windows-1252. */
static char *from_bytes(const char *data, size_t len, size_t *ret_len) {
    char *text = malloc(3 * len + 1);
    if (text && text_convert(data, len, text, 3 * len + 1)) {
        *ret_len = strlen(text);
        return text;
    }
    free(text);
    return from_windows(data, len, ret_len);
}

/* CRLF and CR become LF. Returns the new length. */
static size_t unify_line_ends(char *text, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\r' && i + 1 < len && text[i + 1] == '\n')
            continue;
        text[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    text[n] = '\0';
    return n;
}

/* Control characters but tabs and line ends become '?': a terminal shows texts of files. */
static void drop_controls(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if ((*c < ' ' && !strchr("\t\r\n", *c)) || *c == 0x7F)
            *c = '?';
        else if (c[0] == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0) /* U+0080 to U+009F */
            c[0] = c[1] = '?';
}

int text_decode(const char *path, char **text, size_t *len, struct err *err) {
    char *from = *text, *converted, none[1];
    const bool wide = *len >= 2 && (!memcmp(from, "\xFF\xFE", 2) || !memcmp(from, "\xFE\xFF", 2));
    if (wide || (strlen(from) == *len && is_other_bytes(from, text_convert("", 0, none, sizeof none)))) {
        converted = wide ? from_utf16((const uint8_t *)from, *len, len) : from_bytes(from, *len, len);
        if (!converted)
            return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", path);
        free(from);
        *text = converted;
    } else if (*len >= 3 && !memcmp(from, "\xEF\xBB\xBF", 3)) {
        memmove(from, from + 3, *len -= 3);
        from[*len] = '\0';
    }
    if (strlen(*text) != *len)
        return err_set(err, ERR_INVALID, "%s: byte %zu is NUL; expected a text file", path, strlen(*text));
    drop_controls(*text);
    return 0;
}

int text_read(const char *path, size_t max_bytes, char **ret, size_t *ret_len, struct err *err) {
    char *text;
    size_t len;
    int rc = fsio_read_file(path, max_bytes, &text, &len, err);
    if (rc)
        return rc;
    if ((rc = text_decode(path, &text, &len, err))) {
        free(text);
        return rc;
    }
    *ret_len = unify_line_ends(text, len);
    *ret = text;
    return 0;
}

char *text_line(char **next) {
    char *line = *next;
    if (!*line)
        return NULL;
    size_t n = strcspn(line, "\n");
    *next = line + n + (line[n] == '\n');
    line[n] = '\0';
    return line;
}
