#include "daemon/http/form.h"

static int hex(char c) { return isdigit((unsigned char)c) ? c - '0' : (tolower((unsigned char)c) - 'a') + 10; }

/* The value of the field, which ends at & or at the end of the body; NULL when there is none. */
static const char *find(const char *body, const char *name) {
    size_t len = strlen(name);
    while (body && (strncmp(body, name, len) != 0 || body[len] != '=')) {
        body = strchr(body, '&');
        body = body ? body + 1 : NULL;
    }
    return body ? body + len + 1 : NULL;
}

bool form_field(const char *body, const char *name, char *ret, size_t size) {
    const char *at = find(body, name);
    size_t n = 0;
    bool whole = true;
    for (; at && whole && *at && *at != '&'; at++) {
        bool coded = *at == '%' && isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2]);
        char c = (char)(coded ? hex(at[1]) * 16 + hex(at[2]) : *at == '+' ? ' ' : *at);
        at += coded ? 2 : 0;
        whole = c && n + 1 < size;
        if (whole)
            ret[n++] = c;
    }
    ret[whole ? n : 0] = '\0';
    return whole;
}

static bool consists_of(const char *text, const char *more) {
    for (const char *p = text; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr(more, *p))
            return false;
    return true;
}

bool form_is_token(const char *text) { return *text && consists_of(text, "._~+/=-"); }

bool form_is_own_path(const char *text) { return text[0] == '/' && text[1] != '/' && consists_of(text, "/-_."); }
