#include "store/s3_xml.h"

const char *s3_xml_find(const char **from, const char *end, const char *tag, size_t *ret_len) {
    char open[64], close[64];
    if (!str_format(open, sizeof open, "<%s>", tag) || !str_format(close, sizeof close, "</%s>", tag))
        return NULL;
    const char *start = memmem(*from, (size_t)(end - *from), open, strlen(open));
    if (!start)
        return NULL;
    start += strlen(open);
    const char *stop = memmem(start, (size_t)(end - start), close, strlen(close));
    if (!stop)
        return NULL;
    *ret_len = (size_t)(stop - start);
    *from = stop + strlen(close);
    return start;
}

/* Bytes of the character that the entity at text ("amp;…") stands for into ret; the entity's length with ';', 0 = none. */
static size_t entity(const char *text, size_t len, char ret[5]) {
    static const struct {
        const char *name;
        char byte;
    } named[] = {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (len >= strlen(named[i].name) && !strncmp(text, named[i].name, strlen(named[i].name))) {
            ret[0] = named[i].byte;
            ret[1] = '\0';
            return strlen(named[i].name);
        }
    const char *semicolon = memchr(text, ';', len < 10 ? len : 10);
    if (!semicolon || len < 3 || text[0] != '#')
        return 0;
    char *end;
    unsigned long c = text[1] == 'x' ? strtoul(text + 2, &end, 16) : strtoul(text + 1, &end, 10);
    if (end != semicolon || c == 0 || c > 0x10ffff)
        return 0;
    int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0x00, 0xc0, 0xe0, 0xf0};
    for (int i = n - 1; i > 0; i--, c >>= 6)
        ret[i] = (char)(0x80 | (c & 0x3f));
    ret[0] = (char)(lead[n] | c);
    ret[n] = '\0';
    return (size_t)(semicolon - text) + 1;
}

bool s3_xml_text(const char *xml, size_t len, const char *tag, char *buf, size_t size) {
    const char *from = xml;
    size_t n = 0, used = 0;
    const char *text = s3_xml_find(&from, xml + len, tag, &n);
    buf[0] = '\0';
    for (size_t i = 0; text && i < n; i++) {
        char piece[5] = {text[i]};
        if (text[i] == '&')
            i += entity(text + i + 1, n - i - 1, piece);
        size_t add = strlen(piece);
        if (used + add >= size)
            return false;
        memcpy(buf + used, piece, add + 1);
        used += add;
    }
    return text != NULL;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool s3_xml_url_decode(char *text) {
    char *to = text;
    for (const char *p = text; *p; p++) {
        if (*p == '+') {
            *to++ = ' ';
        } else if (*p == '%') {
            int high = hex_digit(p[1]), low = high < 0 ? -1 : hex_digit(p[2]);
            if (low < 0 || (high == 0 && low == 0))
                return false;
            *to++ = (char)(high * 16 + low);
            p += 2;
        } else {
            *to++ = *p;
        }
    }
    *to = '\0';
    return true;
}

void s3_xml_escape(const char *text, struct str *out) {
    for (const char *p = text; *p; p++) {
        const char *name = *p == '&' ? "&amp;" : *p == '<' ? "&lt;" : *p == '>' ? "&gt;" : *p == '"' ? "&quot;" : NULL;
        if (name)
            str_puts(out, name);
        else
            str_append(out, p, 1);
    }
}
