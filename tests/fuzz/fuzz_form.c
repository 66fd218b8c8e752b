/* Any bytes as the form that signs in: fields are decoded within their buffers, what passes as a token or as a path of this host
 * can neither end a header nor lead elsewhere, and the page that shows the text again has no markup from it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "daemon/http/form.h"
#include "daemon/page/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SMALL = 8, LARGE = 512, FIELD_MAX = 300 };

/* A buffer of its own for each size, so that a sanitizer sees each byte beyond it. */
static char *decode(const char *body, const char *name, size_t size) {
    char *text = malloc(size);
    if (!text)
        abort();
    memset(text, 'x', size);
    form_field(body, name, text, size);
    if (memchr(text, '\0', size) == NULL)
        abort();
    return text;
}

static size_t count(const struct html *h, char c) {
    size_t n = 0;
    for (size_t i = 0; i < h->out.len; i++)
        n += str_cstr(&h->out)[i] == c;
    return n;
}

/* The login page with this text has as many signs of markup as without. */
static void check_page(const char *text) {
    struct html plain, filled;
    plain = html_of();
    filled = html_of();
    page_login(&plain, "", "");
    page_login(&filled, text, text);
    for (const char *c = "<>\""; *c; c++)
        if (count(&plain, *c) != count(&filled, *c))
            abort();
    html_done(&plain);
    html_done(&filled);
}

static void check_field(const char *body, const char *name) {
    char *text = decode(body, name, LARGE), *small = decode(body, name, SMALL);
    if (*small && strcmp(small, text) != 0)
        abort();
    if (form_is_token(text) && strpbrk(text, " ;,\r\n\"\\%"))
        abort();
    if (form_is_own_path(text) && (text[0] != '/' || text[1] == '/' || strpbrk(text, " :\\?#@%\r\n")))
        abort();
    check_page(text);
    free(small);
    free(text);
}

/* What is sent coded comes back as it was, between other fields. */
static void check_coded(const uint8_t *data, size_t size) {
    static const char digits[] = "0123456789abcdef";
    char body[3 * FIELD_MAX + 64] = "atoken=no&token=", want[FIELD_MAX + 1];
    size_t at = strlen(body), n = size < FIELD_MAX ? size : FIELD_MAX;
    for (size_t i = 0; i < n; i++) {
        want[i] = (char)(data[i] ? data[i] : 1);
        body[at++] = '%';
        body[at++] = digits[(unsigned char)want[i] >> 4];
        body[at++] = digits[want[i] & 15];
    }
    want[n] = '\0';
    str_copy(body + at, sizeof body - at, "&token=second&next=/");
    char *token = decode(body, "token", LARGE), *next = decode(body, "next", LARGE);
    if (strcmp(token, want) != 0 || strcmp(next, "/") != 0)
        abort();
    free(next);
    free(token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *body = malloc(size + 1);
    if (!body)
        return 0;
    memcpy(body, data, size);
    body[size] = '\0';
    check_field(body, "token");
    check_field(body, "next");
    check_coded(data, size);
    free(body);
    return 0;
}
