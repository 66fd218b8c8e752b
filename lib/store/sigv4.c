#include "store/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/order.h"
#include "store/digest.h"

enum { HASH_BYTES = 32, TEXT_MAX = 64 << 10 };

void sigv4_encode(const char *raw, bool slashes, struct str *out) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    for (const char *p = raw; *p; p++) {
        if (strchr(plain, *p) || (slashes && *p == '/'))
            str_append(out, p, 1);
        else
            str_printf(out, "%%%02X", (unsigned)(unsigned char)*p);
    }
}

void sigv4_date(int64_t unix_s, char ret[SIGV4_DATE_SIZE]) { clock_utc(unix_s * 1000, "%Y%m%dT%H%M%SZ", ret, SIGV4_DATE_SIZE); }

static int too_many(struct err *err) {
    return err_set(err, ERR_INVALID, "a request with more than %d headers or parameters cannot be signed", SIGV4_MAX_PAIRS);
}

int sigv4_query(const struct sigv4_pair *query, int n, struct str *out, struct err *err) {
    char *parts[SIGV4_MAX_PAIRS];
    if (n > SIGV4_MAX_PAIRS)
        return too_many(err);
    int made = 0;
    for (; made < n; made++) { /* '\1' sorts before every encoded byte, so that a name precedes the names it begins */
        struct str s = str_of(TEXT_MAX);
        sigv4_encode(query[made].name, false, &s);
        str_puts(&s, "\1");
        sigv4_encode(query[made].value, false, &s);
        if (!(parts[made] = str_take(&s)))
            break;
    }
    if (made == n && n)
        SORT(parts, n, order_strings);
    for (int i = 0; i < made; i++) {
        *strchr(parts[i], '\1') = '=';
        if (i)
            str_puts(out, "&");
        str_puts(out, parts[i]);
        free(parts[i]);
    }
    return made == n && str_ok(out) ? 0 : err_set(err, ERR_RANGE, "the parameters of a request are too long to be signed");
}

/* A header's value without the blanks around it, runs of blanks as one. */
static void put_trimmed(struct str *out, const char *value) {
    bool gap = false, begun = false;
    for (const char *p = value; *p; p++) {
        if (*p == ' ' || *p == '\t') {
            gap = begun;
            continue;
        }
        if (gap)
            str_puts(out, " ");
        str_append(out, p, 1);
        gap = false;
        begun = true;
    }
}

ORDER_BY(by_header, struct sigv4_pair, strcmp(x->name, y->name))

static int canonical(const struct sigv4_request *r, struct str *out, struct str *names, struct err *err) {
    struct sigv4_pair sorted[SIGV4_MAX_PAIRS];
    if (r->n_headers > SIGV4_MAX_PAIRS || r->n_headers < 1)
        return too_many(err);
    memcpy(sorted, r->headers, (size_t)r->n_headers * sizeof *sorted);
    SORT(sorted, r->n_headers, by_header);
    str_printf(out, "%s\n", r->method);
    sigv4_encode(r->path, true, out);
    str_puts(out, "\n");
    int rc = sigv4_query(r->query, r->n_query, out, err);
    if (rc)
        return rc;
    str_puts(out, "\n");
    for (int i = 0; i < r->n_headers; i++) {
        str_printf(out, "%s:", sorted[i].name);
        put_trimmed(out, sorted[i].value);
        str_puts(out, "\n");
        str_printf(names, "%s%s", i ? ";" : "", sorted[i].name);
    }
    str_printf(out, "\n%s\n%s", str_cstr(names), r->payload_sha256);
    return str_ok(out) && str_ok(names) ? 0 : err_set(err, ERR_RANGE, "a request is too long to be signed");
}

static bool hmac(const void *key, size_t key_len, const char *text, unsigned char ret[HASH_BYTES]) {
    unsigned int len = 0;
    return HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, strlen(text), ret, &len) && len == HASH_BYTES;
}

/* The signature of `text` under the key derived for its day, region and service. */
static bool signature(const struct sigv4_key *key, const char *day, const char *text, unsigned char ret[HASH_BYTES]) {
    OWNED(str_done) struct str first = str_of(4096);
    unsigned char a[HASH_BYTES], b[HASH_BYTES];
    str_printf(&first, "AWS4%s", key->secret);
    bool ok = str_ok(&first) && hmac(str_cstr(&first), first.len, day, a) && hmac(a, sizeof a, key->region, b) &&
              hmac(b, sizeof b, "s3", a) && hmac(a, sizeof a, "aws4_request", b) && hmac(b, sizeof b, text, ret);
    if (first.data)
        explicit_bzero(first.data, first.len);
    explicit_bzero(a, sizeof a);
    explicit_bzero(b, sizeof b);
    return ok;
}

int sigv4_sign(const struct sigv4_request *request, const struct sigv4_key *key, struct str *ret, struct err *err) {
    OWNED(str_done) struct str text = str_of(TEXT_MAX);
    OWNED(str_done) struct str names = str_of(TEXT_MAX);
    char day[9], hex[DIGEST_HEX_SIZE], scope[128];
    unsigned char sum[HASH_BYTES];
    str_copy(day, sizeof day, key->date);
    int rc = canonical(request, &text, &names, err);
    if (rc)
        return rc;
    if (!str_format(scope, sizeof scope, "%s/%s/s3/aws4_request", day, key->region))
        return err_set(err, ERR_INVALID, "region '%.60s…' is too long", key->region);
    if (!digest_bytes(str_cstr(&text), text.len, hex))
        return err_set(err, ERR_INTERNAL, "OpenSSL could not compute a SHA-256");
    str_clear(&text);
    str_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", key->date, scope, hex);
    if (!signature(key, day, str_cstr(&text), sum))
        return err_set(err, ERR_INTERNAL, "OpenSSL could not compute an HMAC");
    str_printf(ret, "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=", key->id, scope, str_cstr(&names));
    for (int i = 0; i < HASH_BYTES; i++)
        str_printf(ret, "%02x", (unsigned)sum[i]);
    return 0;
}
