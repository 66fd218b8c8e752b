#include "post/signed_post.h"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

enum { ANSWER_BYTES = 200 };

const char *signed_post_system_ca(void) { return curl_version_info(CURLVERSION_NOW)->cainfo; }

/* HMAC-SHA256 of the body in lower-case hexadecimal digits, as in the header `Brr-Signature: sha256=HEX`. */
static int signed_post_signature(const char *secret, const char *body, size_t len, char ret[SIGNED_POST_HEX], struct err *err) {
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (!HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)body, len, mac, &n) || 2 * n + 1 != SIGNED_POST_HEX)
        return err_set(err, ERR_INTERNAL, "OpenSSL cannot compute HMAC-SHA256");
    for (unsigned i = 0; i < n; i++)
        str_format(ret + 2 * (size_t)i, 3, "%02x", mac[i]);
    return 0;
}

static int on_progress(void *stop, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    (void)a, (void)b, (void)c, (void)d;
    return stop && atomic_load((const atomic_bool *)stop);
}

/* Keeps the first bytes of the answer for errors. */
static size_t on_answer(char *data, size_t size, size_t n, void *ctx) {
    struct str *answer = ctx;
    size_t room = answer->max - answer->len, len = size * n;
    str_append(answer, data, len < room ? len : room);
    return len;
}

static void set_up(CURL *curl, const struct signed_post *p, struct curl_slist *headers, struct str *answer) {
    curl_easy_setopt(curl, CURLOPT_URL, p->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,http");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, p->body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)p->len);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)p->timeout_ms);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "brrd");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_answer);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, (void *)(uintptr_t)p->stop);
    struct curl_blob ca = {.data = (void *)(uintptr_t)p->ca, .len = p->ca ? strlen(p->ca) : 0, .flags = CURL_BLOB_NOCOPY};
    if (p->ca)
        curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &ca);
}

static const char *name_of(const struct signed_post *p) { return p->name ? p->name : p->url; }

static int judge(const struct signed_post *p, CURLcode code, long status, const char *answer, struct err *err) {
    if (code != CURLE_OK)
        return err_set(err, ERR_UNAVAILABLE, "%.200s: %s", name_of(p), curl_easy_strerror(code));
    if (status >= 200 && status < 300)
        return 0;
    bool refused = status >= 400 && status < 500 && status != 408 && status != 425 && status != 429;
    return err_set(err, refused ? ERR_INVALID : ERR_UNAVAILABLE, "%.200s answered with the status %ld: %s", name_of(p), status,
                   answer);
}

static int perform(const struct signed_post *p, struct curl_slist *headers, struct err *err) {
    CURL *curl = curl_easy_init();
    struct str answer = str_of(ANSWER_BYTES);
    long status = 0;
    if (!curl)
        return err_set(err, ERR_UNAVAILABLE, "out of memory for a request to %.200s", name_of(p));
    set_up(curl, p, headers, &answer);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    int rc = judge(p, code, status, str_cstr(&answer), err);
    str_done(&answer);
    curl_easy_cleanup(curl);
    return rc;
}

int signed_post_send(const struct signed_post *p, struct err *err) {
    char hex[SIGNED_POST_HEX], lines[3][128];
    struct curl_slist *headers = NULL;
    int rc = p->secret ? signed_post_signature(p->secret, p->body, p->len, hex, err) : 0;
    if (rc)
        return rc;
    str_copy(lines[0], sizeof lines[0], "Content-Type: application/json");
    str_format(lines[1], sizeof lines[1], "Brr-Delivery: %s", p->id);
    str_format(lines[2], sizeof lines[2], "Brr-Signature: sha256=%s", p->secret ? hex : "");
    for (int i = 0; i < (p->secret ? 3 : 2) && !rc; i++) {
        struct curl_slist *more = curl_slist_append(headers, lines[i]);
        headers = more ? more : headers;
        rc = more ? 0 : err_set(err, ERR_UNAVAILABLE, "out of memory for a request to %.200s", name_of(p));
    }
    rc = rc ? rc : perform(p, headers, err);
    curl_slist_free_all(headers);
    return rc;
}
