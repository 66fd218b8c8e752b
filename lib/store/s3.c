#include "store/s3.h"

#include <openssl/evp.h>

#include "store/md5_lanes.h"
#include "store/s3_object.h"
#include "store/s3_xml.h"

enum { LIST_BYTES = 8 << 20, TOKEN_BYTES = 4096, MD5_BATCH_BYTES = 4 << 20, MOST_REQUESTS = 10000 };

int s3_name(const struct s3 *s3, const char *key, char ret[S3_NAME_SIZE], struct err *err) {
    if (!str_format(ret, S3_NAME_SIZE, "%s%s", s3->prefix, key) || strlen(ret) >= STORE_KEY_SIZE)
        return err_set(err, ERR_RANGE, "%s%.100s…: a key of S3 has at most %d bytes", s3->prefix, key, STORE_KEY_SIZE - 1);
    return 0;
}

/* "2013-05-24T00:00:00.000Z" or "Fri, 24 May 2013 00:00:00 GMT"; 0 when it is neither. */
static int64_t time_of(const char *text) {
    struct tm tm = {0};
    if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) && !strptime(text, "%a, %d %b %Y %H:%M:%S", &tm))
        return 0;
    return (int64_t)timegm(&tm) * 1000000000;
}

void s3_tag(const char *etag, char tag[STORE_TAG_SIZE]) {
    size_t len = strlen(etag);
    if (len >= 2 && etag[0] == '"' && etag[len - 1] == '"')
        str_format(tag, STORE_TAG_SIZE, "%.*s", (int)(len - 2), etag + 1);
    else
        str_copy(tag, STORE_TAG_SIZE, etag);
}

/* Listing. */

struct listing {
    struct s3 *s3;
    struct store_page *page;
    char token[TOKEN_BYTES];
    int requests; /* of this page */
    bool truncated;
};

/* The name in the store of a key of the bucket; NULL when the store cannot name it. */
static const char *listed_key(const struct s3 *s3, const char *name) {
    const char *key = name + strlen(s3->prefix);
    if (!str_starts(name, s3->prefix) || !*key || *key == '/' || str_ends(key, "/") || strstr(key, "//") || str_starts(key, "./") ||
        str_starts(key, "../") || strstr(key, "/./") || strstr(key, "/../") || str_ends(key, "/.") || str_ends(key, "/..") ||
        !strcmp(key, ".") || !strcmp(key, ".."))
        return NULL;
    for (const char *p = key; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return NULL;
    return key;
}

static int bad_answer(const struct s3 *s3, const char *what, struct err *err) {
    return err_set(err, ERR_DATA_LOSS, "s3://%s: the server's list cannot be read (%s); is the endpoint an S3 server?",
                   s3_client_bucket(s3->client), what);
}

static int add_listed(struct listing *l, const char *xml, size_t len, struct err *err) {
    char name[3 * S3_NAME_SIZE], text[128];
    struct store_item item = {0};
    if (!s3_xml_text(xml, len, "Key", name, sizeof name) || !s3_xml_url_decode(name))
        return bad_answer(l->s3, "a key", err);
    const char *key = listed_key(l->s3, name);
    if (!key || strlen(key) >= STORE_KEY_SIZE)
        return 0;
    if (!s3_xml_text(xml, len, "Size", text, sizeof text) || !str_to_i64(text, &item.size_bytes) || item.size_bytes < 0)
        return bad_answer(l->s3, "a size", err);
    if (s3_xml_text(xml, len, "LastModified", text, sizeof text))
        item.mtime_ns = time_of(text);
    if (s3_xml_text(xml, len, "ETag", text, sizeof text))
        s3_tag(text, item.tag);
    if (!(item.key = arena_strdup(&l->page->memory, key)))
        return err_set(err, ERR_EXHAUSTED, "s3://%s: out of memory listing keys", s3_client_bucket(l->s3->client));
    if (l->page->count == STORE_PAGE_MAX)
        return bad_answer(l->s3, "more keys than were asked for", err);
    l->page->items[l->page->count++] = item;
    return 0;
}

static int read_listing(struct listing *l, const char *xml, size_t len, struct err *err) {
    char text[16];
    size_t n = 0;
    const char *from = xml, *end = xml + len, *item;
    int rc = 0;
    const char *root = s3_xml_find(&from, end, "IsTruncated", &n); /* also there when the list is empty */
    if (!root)
        return bad_answer(l->s3, "no ListBucketResult", err);
    l->truncated = s3_xml_text(xml, len, "IsTruncated", text, sizeof text) && !strcmp(text, "true");
    bool token = s3_xml_text(xml, len, "NextContinuationToken", l->token, sizeof l->token);
    if (l->truncated && !token)
        return bad_answer(l->s3, "no continuation token", err);
    from = xml;
    while ((item = s3_xml_find(&from, end, "Contents", &n)))
        if ((rc = add_listed(l, item, n, err)))
            return rc;
    return 0;
}

/* One request: from the token, else after `after`. */
static int list_some(struct listing *l, const char *prefix, const char *after, char *buf, struct err *err) {
    char name[S3_NAME_SIZE], begin[S3_NAME_SIZE], most[16], token[TOKEN_BYTES];
    OWNED_MEMORY struct s3_call *call = calloc(1, sizeof *call);
    int rc;
    if ((rc = call ? s3_name(l->s3, prefix, name, err) : err_set(err, ERR_EXHAUSTED, "out of memory listing keys")) ||
        (*after && (rc = s3_name(l->s3, after, begin, err))))
        return rc;
    str_format(most, sizeof most, "%zu", STORE_PAGE_MAX - l->page->count);
    str_copy(token, sizeof token, l->token);
    call->method = "GET";
    call->key = "";
    call->query[call->n_query++] = (struct sigv4_pair){"list-type", "2"};
    call->query[call->n_query++] = (struct sigv4_pair){"encoding-type", "url"};
    call->query[call->n_query++] = (struct sigv4_pair){"max-keys", most};
    call->query[call->n_query++] = (struct sigv4_pair){"prefix", name};
    if (*token)
        call->query[call->n_query++] = (struct sigv4_pair){"continuation-token", token};
    else if (*after)
        call->query[call->n_query++] = (struct sigv4_pair){"start-after", begin};
    call->buf = buf;
    call->cap = LIST_BYTES;
    if ((rc = s3_call_run(l->s3->client, call, NULL, err)))
        return rc;
    rc = read_listing(l, buf, call->fetch.sink.got, err);
    if (rc == 0 && l->truncated && (!strcmp(token, l->token) || ++l->requests > MOST_REQUESTS))
        return bad_answer(l->s3, "a continuation token that does not lead on", err);
    return rc;
}

static int s3_list(struct store *store, const char *prefix, const char *after, struct store_page *page, struct err *err) {
    struct listing l = {.s3 = s3_of(store), .page = page};
    OWNED_MEMORY char *buf = malloc(LIST_BYTES);
    if (!buf)
        return err_set(err, ERR_EXHAUSTED, "out of memory listing keys");
    do {
        int rc = list_some(&l, prefix, after, buf, err);
        if (rc)
            return rc;
    } while (l.truncated && page->count < STORE_PAGE_MAX);
    page->more = l.truncated;
    if (page->more && strcmp(page->items[page->count - 1].key, after) <= 0)
        return bad_answer(l.s3, "the keys before the ones that were asked for", err);
    return 0;
}

/* One object's state. */

/* n bytes (at most 32), no more and no fewer, in base64 to hex of 2n digits. */
static bool base64_hex(const char *text, size_t n, char *hex) {
    unsigned char bytes[48];
    size_t len = (n + 2) / 3 * 4;
    if (strlen(text) != len ||
        strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") != (8 * n + 5) / 6 ||
        EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len) != (int)(len / 4 * 3))
        return false;
    for (size_t i = 0; i < n; i++)
        str_format(hex + 2 * i, 3, "%02x", (unsigned)bytes[i]);
    return true;
}

static void read_head(const struct fetch_headers *h, struct s3_head *ret) {
    *ret = (struct s3_head){.size_bytes = h->content_length, .mtime_ns = time_of(h->last_modified)};
    char tag[STORE_TAG_SIZE];
    str_copy(ret->etag, sizeof ret->etag, h->etag);
    s3_tag(h->etag, tag);
    /* The ETag of an upload in one part is the MD5 of its bytes, unless the server encrypts with keys of its own; rclone notes that
     * of an upload in several. */
    if (strlen(tag) == 32 && strspn(tag, "0123456789abcdef") == 32 && !str_starts(h->encryption, "aws:kms"))
        str_copy(ret->md5, sizeof ret->md5, tag);
    else
        (void)base64_hex(h->meta_md5, 16, ret->md5);
    bool composite = !strcmp(h->checksum_type, "COMPOSITE"); /* sums of sums, with or without "-N" behind them */
    if ((composite || !base64_hex(h->checksum_sha256, 32, ret->sha256)) && digest_is_hex(h->meta_sha256))
        str_copy(ret->sha256, sizeof ret->sha256, h->meta_sha256);
    for (int kind = 0; kind < CRC_KINDS && !composite && !ret->has_crc; kind++) {
        char hex[17];
        ret->crc_kind = (enum crc_kind)kind;
        ret->has_crc = base64_hex(h->checksum_crc[kind], (size_t)crc_bits(ret->crc_kind) / 8, hex);
        ret->crc = ret->has_crc ? strtoull(hex, NULL, 16) : 0;
    }
    if (!ret->has_crc)
        ret->crc_kind = CRC_64_NVME;
}

static int run_head(const struct s3 *s3, const char *name, const struct store_watch *watch, struct s3_call *call, struct err *err) {
    *call = (struct s3_call){.method = "HEAD", .key = name};
    return s3_call_run(s3->client, call, watch, err);
}

int s3_head(const struct s3 *s3, const char *name, const struct store_watch *watch, struct s3_head *ret, struct err *err) {
    OWNED_MEMORY struct s3_call *call = calloc(1, sizeof *call);
    char byte;
    if (!call)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a request");
    int rc = run_head(s3, name, watch, call, err);
    int status = call->fetch.status;
    if (rc && (status == 400 || status == 403 || status == 404)) { /* an answer to HEAD has no body; GET says why */
        *call = (struct s3_call){.method = "GET", .key = name, .length = 1, .short_ok = true, .buf = &byte, .cap = 1};
        struct err why = {0};
        int reason = s3_call_run(s3->client, call, watch, &why);
        if (!reason) { /* and corrected the request: other credentials, another clock or region */
            rc = run_head(s3, name, watch, call, err);
        } else if (reason != ERR_UNAVAILABLE) {
            rc = reason;
            if (err)
                *err = why;
        }
    }
    if (rc)
        return rc;
    if (call->fetch.answer.content_length < 0)
        return err_set(err, ERR_DATA_LOSS, "s3://%s/%s: the server does not say its length", s3_client_bucket(s3->client), name);
    read_head(&call->fetch.answer, ret);
    return 0;
}

static int s3_stat(struct store *store, const char *key, struct store_item *ret, const struct store_watch *watch, struct err *err) {
    char name[S3_NAME_SIZE];
    struct s3_head head;
    int rc;
    if ((rc = s3_name(s3_of(store), key, name, err)) || (rc = s3_head(s3_of(store), name, watch, &head, err)))
        return rc;
    *ret = (struct store_item){.key = key, .size_bytes = head.size_bytes, .mtime_ns = head.mtime_ns};
    s3_tag(head.etag, ret->tag);
    return 0;
}

/* The ETag that s3_tag made this of. */
static const char *etag_of(const char *tag, char etag[STORE_TAG_SIZE + 2]) {
    str_format(etag, STORE_TAG_SIZE + 2, str_starts(tag, "W/") ? "%s" : "\"%s\"", tag);
    return etag;
}

static int s3_read(struct store *store, const char *key, struct store_piece *piece, const struct store_watch *watch,
                   struct err *err) {
    char name[S3_NAME_SIZE], etag[STORE_TAG_SIZE + 2];
    struct err why = {0};
    int rc;
    if (!piece->len)
        return 0;
    if ((rc = s3_name(s3_of(store), key, name, err)))
        return rc;
    OWNED_MEMORY struct s3_call *call = calloc(1, sizeof *call);
    if (!call)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a request");
    *call = (struct s3_call){.method = "GET",
                             .key = name,
                             .first = piece->offset,
                             .length = (int64_t)piece->len,
                             .short_ok = true,
                             .if_match = watch->tag && *watch->tag ? etag_of(watch->tag, etag) : NULL,
                             .buf = piece->buf,
                             .cap = piece->len};
    rc = s3_call_run(s3_of(store)->client, call, watch, &why);
    if (rc && rc != ERR_RANGE) {
        if (err)
            *err = why;
        return rc;
    }
    piece->len = rc ? 0 : call->fetch.sink.got; /* RANGE: past the end */
    return 0;
}

/* Digests of a whole file under OpenSSL's name of the kind; false when it cannot be read. */
static bool file_digest(const char *path, const EVP_MD *kind, unsigned char *ret, unsigned *ret_len) {
    enum { BLOCK = 128 << 10 }; /* stays in the second-level cache */
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    char *block = malloc(BLOCK);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = ctx && block && fd >= 0 && EVP_DigestInit_ex(ctx, kind, NULL) == 1;
    for (ssize_t n = 1; ok && n;) {
        n = read(fd, block, BLOCK);
        ok = n >= 0 && EVP_DigestUpdate(ctx, block, (size_t)n) == 1;
    }
    ok = ok && EVP_DigestFinal_ex(ctx, ret, ret_len) == 1;
    EVP_MD_CTX_free(ctx);
    free(block);
    if (fd >= 0)
        close(fd);
    return ok;
}

bool s3_in_batch(const struct s3 *s3, const struct s3_head *head) {
    return s3->md5_batch && !*head->sha256 && !head->has_crc && *head->md5 && head->size_bytes >= MD5_BATCH_BYTES;
}

static bool md5_batch_digest(const struct s3 *s3, const char *path, char text[33]) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && !md5_batch_file(s3->md5_batch, fd, path, text, NULL);
    if (fd >= 0)
        close(fd);
    return ok;
}

int s3_untrue(const char *object, const char *kind, const char *got, const char *want, struct err *err) {
    return err_set(
        err, ERR_DATA_LOSS,
        "%s: the received object has %s %s, the server promises %s, in each of 2 tries; check the network path and the upload",
        object, kind, got, want);
}

int s3_verify(const struct s3 *s3, const char *path, const char *object, const struct s3_head *head, struct err *err) {
    unsigned char sum[EVP_MAX_MD_SIZE];
    char text[2 * EVP_MAX_MD_SIZE + 1] = "";
    unsigned len = 0;
    bool sha = *head->sha256, in_batch = s3_in_batch(s3, head);
    if (!sha && (head->has_crc || !*head->md5))
        return 0;
    if (in_batch ? !md5_batch_digest(s3, path, text) : !file_digest(path, sha ? EVP_sha256() : EVP_md5(), sum, &len))
        return err_set(err, ERR_INTERNAL, "%s cannot be read back to verify it", path);
    for (unsigned i = 0; i < len; i++)
        str_format(text + (size_t)2 * i, 3, "%02x", (unsigned)sum[i]);
    const char *want = sha ? head->sha256 : head->md5;
    return strcmp(text, want) ? s3_untrue(object, sha ? "SHA-256" : "MD5", text, want, err) : 0;
}

static void s3_close(struct store *store) {
    struct s3 *s3 = s3_of(store);
    s3_client_close(s3->client);
    md5_batch_free(s3->md5_batch);
    str_done(&s3->identity);
    free(s3);
}

static const struct store_ops s3_ops = {.list = s3_list,
                                        .stat = s3_stat,
                                        .read = s3_read,
                                        .get = s3_get,
                                        .get_beside = s3_get_beside,
                                        .put = s3_put,
                                        .close = s3_close};

int s3_open(const struct store_config *config, struct store **ret, struct err *err) {
    struct s3 *s3 = calloc(1, sizeof *s3);
    if (!s3)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", config->url);
    s3->base.ops = &s3_ops;
    str_init(&s3->identity, 4096);
    const char *slash = strchr(config->url + strlen("s3://"), '/');
    const char *prefix = slash ? slash + 1 : "";
    size_t len = strlen(prefix);
    while (len && prefix[len - 1] == '/')
        len--;
    int rc = 0;
    if (len >= STORE_KEY_SIZE)
        rc = err_set(err, ERR_RANGE, "%.100s…: a prefix of S3 has at most %d bytes", config->url, STORE_KEY_SIZE - 1);
    else if (len)
        str_format(s3->prefix, sizeof s3->prefix, "%.*s/", (int)len, prefix);
    if (rc ||
        (md5_lanes_usable() && !(s3->md5_batch = md5_batch_new()) &&
         (rc = err_set(err, ERR_EXHAUSTED, "out of memory opening %s", config->url))) ||
        (rc = s3_client_open(config, &s3->client, err))) {
        s3_close(&s3->base);
        return rc;
    }
    s3_client_identity(s3->client, &s3->identity);
    str_printf(&s3->identity, "/%s", s3->prefix);
    s3->base.identity = str_cstr(&s3->identity);
    *ret = &s3->base;
    return 0;
}
