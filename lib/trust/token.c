#include "trust/token.h"

#include <fnmatch.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "base/options.h"
#include "base/principal.h"

enum { LINE_WORDS = 9, DAY_S = 24 * 3600 };

struct tokens {
    struct token *items;
    size_t count;
};

static const char *const role_names[] = {"none", "read", "stream", "submit", "admin"};

const char *role_name(enum role role) { return role_names[role]; }

/* The role with this name; ROLE_NONE for any other text. */
static enum role role_parse(const char *text) {
    const int i = STR_AMONG(text, role_names);
    return i < 0 ? ROLE_NONE : (enum role)i;
}

int token_check_name(const char *name, struct err *err) {
    size_t len = strlen(name);
    bool fine = len > 0 && len < TOKEN_NAME_SIZE;
    for (const char *p = name; fine && *p; p++)
        fine = isalnum((unsigned char)*p) || strchr("._-@", *p);
    return fine ? 0
                : err_set(err, ERR_INVALID, "'%.80s' cannot name a token; expected up to %d letters, digits and . _ - @", name,
                          TOKEN_NAME_SIZE - 1);
}

int token_digest(const void *text, size_t len, unsigned char ret[TOKEN_DIGEST], struct err *err) {
    unsigned int n = 0;
    unsigned char sum[EVP_MAX_MD_SIZE];
    if (EVP_Digest(text, len, sum, &n, EVP_sha256(), NULL) != 1 || n != TOKEN_DIGEST)
        return err_set(err, ERR_INTERNAL, "OpenSSL cannot compute SHA-256");
    memcpy(ret, sum, TOKEN_DIGEST);
    return 0;
}

static void put_hex(const unsigned char *bytes, size_t n, char *ret) {
    for (size_t i = 0; i < n; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

static bool read_hex(const char *text, unsigned char ret[TOKEN_DIGEST]) {
    static const char digits[] = "0123456789abcdef";
    if (strlen(text) != 2 * TOKEN_DIGEST)
        return false;
    for (int i = 0; i < 2 * TOKEN_DIGEST; i++) {
        const char *at = strchr(digits, tolower((unsigned char)text[i]));
        if (!at)
            return false;
        int value = (int)(at - digits);
        ret[i / 2] = (unsigned char)(i % 2 ? ret[i / 2] | value : value << 4);
    }
    return true;
}

int token_make(char ret_token[TOKEN_SIZE], char ret_hex[TOKEN_HEX_SIZE], struct err *err) {
    unsigned char secret[TOKEN_DIGEST], digest[TOKEN_DIGEST];
    char text[TOKEN_SIZE] = "brr_";
    if (RAND_priv_bytes(secret, sizeof secret) != 1)
        return err_set(err, ERR_INTERNAL, "OpenSSL has no random bytes for a token");
    put_hex(secret, sizeof secret, text + strlen(text));
    int rc = token_digest(text, strlen(text), digest, err);
    if (!rc) {
        memcpy(ret_token, text, sizeof text);
        put_hex(digest, sizeof digest, ret_hex);
    }
    OPENSSL_cleanse(secret, sizeof secret);
    OPENSSL_cleanse(text, sizeof text);
    return rc;
}

bool token_read_until(const char *text, int64_t *ret_ms) {
    struct tm at = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%MZ", &at);
    const bool is_day = !end || *end;
    if (is_day) {
        at = (struct tm){0};
        end = strptime(text, "%Y-%m-%d", &at);
    }
    if (!end || *end)
        return false;
    const int day = at.tm_mday;
    *ret_ms = ((int64_t)timegm(&at) + (is_day ? DAY_S : 0)) * 1000;
    return at.tm_mday == day; /* timegm takes February 30 for March 2 */
}

/* Whether the bed has one of the names; NULL: whether one of them is no pattern. */
static bool any_name(const char *names, const char *bed) {
    bool found = false;
    for (const char *at = names, *end; !found && *at; at = end + (*end == ',')) {
        char pattern[TOKEN_NAMES_SIZE];
        end = at + strcspn(at, ",");
        str_format(pattern, sizeof pattern, "%.*s", (int)(end - at), at);
        found = bed ? !fnmatch(pattern, bed, 0) : !options_is_pattern(pattern);
    }
    return found;
}

bool token_names_match(const char *names, const char *bed) { return !*names || any_name(names, bed); }

bool token_sees_bed(const struct token_sight *s, const char *principal, const char *bed) {
    if (s->all)
        return true;
    return s->names && *s->names ? *bed && token_names_match(s->names, bed) : principal_is_same(s->principal, principal);
}

static bool names_fit(const char *names) {
    return *names && strlen(names) < TOKEN_NAMES_SIZE && !strpbrk(names, " \t\r\n\"\\") && !strstr(names, ",,") && *names != ',' &&
           names[strlen(names) - 1] != ',';
}

/* One of the words behind the digest, each of which may stand there once. */
static bool read_word(const char *word, struct token *t) {
    const char *value = strchr(word, '=') ? strchr(word, '=') + 1 : "";
    if (!t->all && !strcmp(word, "all"))
        return t->all = true;
    if (!t->answer && !strcmp(word, "answer"))
        return t->answer = true;
    if (!t->proxy && !strcmp(word, "proxy"))
        return t->proxy = true;
    if (!*t->names && str_starts(word, "names=") && names_fit(value)) {
        str_copy(t->names, sizeof t->names, value);
        return true;
    }
    return !t->until_ms && str_starts(word, "until=") && token_read_until(value, &t->until_ms);
}

int token_check_request(const struct token_request *r, int64_t *ret_until_ms, struct err *err) {
    int64_t until_ms = 0;
    if (!role_parse(r->role))
        return err_set(err, ERR_INVALID, "there is no role '%.40s'; expected read, stream, submit or admin", r->role);
    if (r->until && !token_read_until(r->until, &until_ms))
        return err_set(err, ERR_INVALID, "'%.40s' is no day; expected YYYY-MM-DD, or YYYY-MM-DDTHH:MMZ", r->until);
    if (r->names && !names_fit(r->names))
        return err_set(err, ERR_INVALID,
                       "'%.140s' are no names of beds; expected at most %d bytes, such as bed-7,bed-8 or bed-*, without spaces, "
                       "quotes and empty names",
                       r->names, TOKEN_NAMES_SIZE - 1);
    if (r->names && any_name(r->names, NULL))
        return err_set(err, ERR_INVALID, "'%.140s' has a [ without its ]; expected one such as bed-[1-4]", r->names);
    int rc = token_check_name(r->name, err);
    if (rc)
        return rc;
    if (ret_until_ms)
        *ret_until_ms = until_ms;
    return 0;
}

static int read_line(char *line, const char *path, int number, struct token *ret, struct err *err) {
    char *words[LINE_WORDS], *rest = NULL;
    int n = 0;
    for (char *w = strtok_r(line, " \t\r", &rest); w && n < LINE_WORDS; w = strtok_r(NULL, " \t\r", &rest))
        words[n++] = w;
    if (n < 3 || n == LINE_WORDS)
        return err_set(
            err, ERR_INVALID,
            "%s:%d: %d words; expected: role name sha256-of-token [all] [answer] [proxy] [names=PATTERN,…] [until=YYYY-MM-DD]",
            path, number, n);
    struct token t = {.role = role_parse(words[0])};
    if (!t.role && strcmp(words[0], "revoked"))
        return err_set(err, ERR_INVALID, "%s:%d: there is no role '%.40s'; expected read, stream, submit, admin or revoked", path,
                       number, words[0]);
    int rc = token_check_name(words[1], err);
    if (rc)
        return err_wrap(err, "%s:%d: bad name", path, number);
    str_copy(t.name, sizeof t.name, words[1]);
    if (!read_hex(words[2], t.digest)) /* it may be a token by mistake: never repeated */
        return err_set(
            err, ERR_INVALID,
            "%s:%d: the third word is no SHA-256 (64 hex digits); brrctl tls token DIR --role R --name N writes the line", path,
            number);
    for (int i = 3; i < n; i++)
        if (!read_word(words[i], &t))
            return err_set(err, ERR_INVALID,
                           "%s:%d: '%.40s'; expected all, answer, proxy, names=PATTERN,… or until=YYYY-MM-DD, each once", path,
                           number, words[i]);
    if (any_name(t.names, NULL))
        return err_set(err, ERR_INVALID, "%s:%d: 'names=%.140s' has a [ without its ]; expected one such as bed-[1-4]", path,
                       number, t.names);
    *ret = t;
    return 0;
}

static bool listed(const struct tokens *t, const unsigned char *digest) {
    for (size_t i = 0; i < t->count; i++)
        if (!CRYPTO_memcmp(t->items[i].digest, digest, TOKEN_DIGEST))
            return true;
    return false;
}

static int add(struct tokens *t, const struct token *one, const char *path, struct err *err) {
    if (t->count == TOKENS_MAX)
        return err_set(err, ERR_EXHAUSTED, "%s: more than %d tokens", path, TOKENS_MAX);
    if (t->count % 64 == 0) {
        struct token *grown = realloc(t->items, (t->count + 64) * sizeof *grown);
        if (!grown)
            return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", path);
        t->items = grown;
    }
    t->items[t->count++] = *one;
    return 0;
}

/* Tokens that the file listed before and lists no longer, as many as there is room for. */
static void keep_vanished(struct tokens *t, const struct tokens *previous, bool settled, const char *path) {
    for (size_t i = 0; previous && i < previous->count; i++) {
        struct token gone = previous->items[i];
        gone.vanished = !settled && gone.role;
        gone.role = settled ? ROLE_NONE : gone.role;
        if (!listed(t, gone.digest) && add(t, &gone, path, NULL))
            return;
    }
}

static int read_all(struct tokens *t, char *text, const char *path, struct err *err) {
    int number = 0, rc = 0;
    for (char *line = text; line && !rc;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        number++;
        const char *first = line + strspn(line, " \t\r");
        if (*first && *first != '#') {
            struct token one;
            if (!(rc = read_line(line, path, number, &one, err)))
                rc = listed(t, one.digest)
                         ? err_set(err, ERR_INVALID, "%s:%d: an earlier line has the same digest; remove one", path, number)
                         : add(t, &one, path, err);
        }
        line = end ? end + 1 : NULL;
    }
    return rc;
}

static int parse(char *text, const char *path, const struct tokens *previous, bool settled, struct tokens **ret, struct err *err) {
    struct tokens *t = calloc(1, sizeof *t);
    int rc = t ? read_all(t, text, path, err) : err_set(err, ERR_EXHAUSTED, "out of memory reading %s", path);
    if (rc) {
        tokens_free(t);
        return rc;
    }
    keep_vanished(t, previous, settled, path);
    *ret = t;
    return 0;
}

int tokens_parse(char *text, const char *path, const struct tokens *previous, struct tokens **ret, struct err *err) {
    return parse(text, path, previous, true, ret, err);
}

int tokens_reparse(char *text, const char *path, const struct tokens *previous, bool settled, struct tokens **ret,
                   struct err *err) {
    const size_t len = strlen(text);
    struct tokens *t = NULL;
    if (len && text[len - 1] != '\n')
        return err_set(err, ERR_INVALID,
                       "%s does not end with a line feed: is it written whole? Expected a line feed behind the last line", path);
    int rc = parse(text, path, previous, settled, &t, err);
    if (rc)
        return rc;
    if (tokens_count(t) == tokens_vanished(t)) {
        tokens_free(t);
        return err_set(err, ERR_INVALID,
                       "%s lists no valid token; to revoke all of them, mark each line `revoked` and add another token", path);
    }
    *ret = t;
    return 0;
}

void tokens_free(struct tokens *t) {
    if (!t)
        return;
    free(t->items);
    free(t);
}

size_t tokens_count(const struct tokens *t) {
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        n += t->items[i].role != ROLE_NONE;
    return n;
}

static bool is_valid(const struct token *t, int64_t now_ms) { return t->role && (!t->until_ms || now_ms < t->until_ms); }

int tokens_name_bed(const struct tokens *t, const char *name, const char *bed, int64_t now_ms) {
    const size_t n = principal_length(name);
    int ret = -1;
    for (size_t i = 0; i < t->count && ret < 1; i++) {
        const struct token *one = &t->items[i];
        if (one->role >= ROLE_STREAM && *one->names && is_valid(one, now_ms) && token_names_match(one->names, bed))
            ret = n == strlen(one->name) && !strncmp(one->name, name, n);
    }
    return ret;
}

bool tokens_named(const struct tokens *t, const char *name, int64_t now_ms, struct token *ret) {
    for (size_t i = t->count; i-- > 0;) {
        const struct token *one = &t->items[i];
        if (strcmp(one->name, name) != 0 || !is_valid(one, now_ms))
            continue;
        *ret = *one;
        return true;
    }
    return false;
}

size_t tokens_vanished(const struct tokens *t) {
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        n += t->items[i].vanished;
    return n;
}

enum token_result tokens_find(const struct tokens *t, const unsigned char digest[TOKEN_DIGEST], int64_t now_ms, struct token *ret) {
    size_t found = t->count;
    for (size_t i = 0; i < t->count; i++) /* all of them: no early end */
        found = CRYPTO_memcmp(t->items[i].digest, digest, TOKEN_DIGEST) ? found : i;
    if (found == t->count)
        return TOKEN_UNKNOWN;
    *ret = t->items[found];
    if (!ret->role)
        return TOKEN_REVOKED;
    return ret->until_ms && now_ms >= ret->until_ms ? TOKEN_EXPIRED : TOKEN_VALID;
}
