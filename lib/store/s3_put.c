/* put of store/s3.h: one PUT for what is small, a multipart upload for the rest; either is seen whole or not at all. */

#include "store/s3_object.h"
#include "store/s3_xml.h"

enum { SINGLE_MAX = 2 * S3_PART_BYTES, MAX_PARTS = 10000, WINDOW = 4, ANSWER_MAX = 64 << 10, COMPLETE_STALL_S = 300 };
#define OBJECT_MAX ((int64_t)5 << 40)

struct upload {
    struct s3 *s3;
    const char *path, *name;
    char object[300], id[1024], sha256[DIGEST_HEX_SIZE];
    int fd;
    struct stat before;
    int64_t size, part_bytes, parts, next, done_bytes;
    char (*etags)[80];
    struct s3_call *calls; /* WINDOW of them */
    char *blocks[WINDOW];
    char numbers[WINDOW][24];
    int64_t part_of[WINDOW];
};

static int read_block(struct upload *u, int64_t offset, char *block, size_t len, struct err *err) {
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(u->fd, block + done, len - done, (off_t)(offset + (int64_t)done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "cannot read %s", u->path);
        if (!n)
            return err_set(err, ERR_ABORTED, "%s became shorter while it was sent; try again when nobody writes it", u->path);
        done += (size_t)n;
    }
    return 0;
}

static int check_unchanged(struct upload *u, struct err *err) {
    struct stat now;
    if (!fstat(u->fd, &now) && now.st_size == u->before.st_size && now.st_mtim.tv_sec == u->before.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == u->before.st_mtim.tv_nsec)
        return 0;
    return err_set(err, ERR_ABORTED, "%s changed while it was sent; try again when nobody writes it", u->path);
}

static int put_single(struct upload *u, const struct store_watch *watch, struct err *err) {
    struct s3_call *call = &u->calls[0];
    int rc;
    if ((rc = read_block(u, 0, u->blocks[0], (size_t)u->size, err)) || (rc = check_unchanged(u, err)))
        return rc;
    *call = (struct s3_call){.method = "PUT", .key = u->name, .body = u->blocks[0], .body_len = (size_t)u->size};
    return s3_call_run(u->s3->client, call, watch, err);
}

/* A call that answers with XML in buf (ANSWER_MAX bytes). */
static int ask(struct upload *u, struct s3_call *call, char *buf, size_t *ret_len, struct err *err) {
    call->key = u->name;
    call->buf = buf;
    call->cap = ANSWER_MAX;
    int rc = s3_call_run(u->s3->client, call, NULL, err);
    *ret_len = rc ? 0 : call->fetch.sink.got;
    return rc;
}

static int begin(struct upload *u, char *answer, struct err *err) {
    struct s3_call *call = &u->calls[0];
    size_t len = 0;
    *call = (struct s3_call){.method = "POST", .query = {{"uploads", ""}}, .n_query = 1, .meta_sha256 = u->sha256};
    int rc = ask(u, call, answer, &len, err);
    if (rc)
        return rc;
    if (!s3_xml_text(answer, len, "UploadId", u->id, sizeof u->id) || !*u->id)
        return err_set(err, ERR_DATA_LOSS, "%s: the server's answer to a multipart upload has no UploadId", u->object);
    return 0;
}

/* Load the next part into slot i; false when all were handed out. */
static int assign(void *ctx, int i, bool *ret_more, struct err *err) {
    struct upload *u = ctx;
    int rc;
    *ret_more = u->next < u->parts;
    if (!*ret_more)
        return 0;
    int64_t part = u->part_of[i] = u->next++, offset = part * u->part_bytes;
    size_t len = (size_t)(u->size - offset < u->part_bytes ? u->size - offset : u->part_bytes);
    if ((rc = read_block(u, offset, u->blocks[i], len, err))) {
        *ret_more = false;
        return rc;
    }
    str_format(u->numbers[i], sizeof u->numbers[i], "%lld", (long long)part + 1);
    u->calls[i] = (struct s3_call){.method = "PUT",
                                   .key = u->name,
                                   .query = {{"partNumber", u->numbers[i]}, {"uploadId", u->id}},
                                   .n_query = 2,
                                   .body = u->blocks[i],
                                   .body_len = len};
    return 0;
}

static int finish_part(void *ctx, int i, struct err *err) {
    struct upload *u = ctx;
    struct s3_call *call = &u->calls[i];
    int64_t part = u->part_of[i];
    str_copy(u->etags[part], sizeof u->etags[part], call->fetch.answer.etag);
    u->done_bytes += (int64_t)call->body_len;
    s3_call_done(u->s3->client, call);
    return *u->etags[part]
               ? 0
               : err_set(err, ERR_DATA_LOSS, "%s: the server gave no ETag for part %lld", u->object, (long long)part + 1);
}

static int send_parts(struct upload *u, const struct store_watch *watch, struct err *err) {
    const struct s3_batch batch = {u->calls, WINDOW, u, assign, finish_part, watch, &u->done_bytes, u->size, "sending", u->object};
    int rc = s3_batch_run(u->s3->client, &batch, err);
    return rc ? rc : check_unchanged(u, err);
}

/* The object stands after a completion whose answer was lost. */
static bool stands(struct upload *u) {
    struct s3_head head;
    char suffix[24];
    str_format(suffix, sizeof suffix, "-%lld\"", (long long)u->parts);
    return !s3_head(u->s3, u->name, NULL, &head, NULL) && head.size_bytes == u->size && str_ends(head.etag, suffix);
}

static int complete(struct upload *u, char *answer, struct err *err) {
    struct s3_call *call = &u->calls[0];
    struct str body = str_of(4u << 20);
    char code[64], said[160];
    size_t len = 0;
    str_puts(&body, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (int64_t i = 0; i < u->parts; i++) {
        str_printf(&body, "<Part><PartNumber>%lld</PartNumber><ETag>", (long long)i + 1);
        s3_xml_escape(u->etags[i], &body);
        str_puts(&body, "</ETag></Part>");
    }
    str_puts(&body, "</CompleteMultipartUpload>");
    *call = (struct s3_call){.method = "POST",
                             .query = {{"uploadId", u->id}},
                             .n_query = 1,
                             .body = str_cstr(&body),
                             .body_len = body.len,
                             .stall_s = COMPLETE_STALL_S};
    int rc = str_ok(&body) ? ask(u, call, answer, &len, err) : err_set(err, ERR_EXHAUSTED, "out of memory sending %s", u->object);
    str_done(&body);
    if (rc)
        return call->tries > 1 && stands(u) ? 0 : rc;
    if (!s3_xml_text(answer, len, "Code", code, sizeof code)) /* an error may come with status 200 */
        return 0;
    (void)s3_xml_text(answer, len, "Message", said, sizeof said);
    return err_set(err, ERR_UNAVAILABLE, "%s: the server did not put the parts together (%s: %s); try again", u->object, code,
                   said);
}

/* Parts of a failed upload cost money until they are dropped. */
static void give_up(struct upload *u) {
    struct s3_call *call = &u->calls[0];
    *call = (struct s3_call){.method = "DELETE", .key = u->name, .query = {{"uploadId", u->id}}, .n_query = 1, .stall_s = 5};
    (void)s3_call_run(u->s3->client, call, NULL, NULL);
}

/* Not every server keeps a sum of what came in parts, but all keep notes, which are made with the first request. */
static int hash_source(struct upload *u, const struct store_watch *watch, struct err *err) {
    struct digest *digest = digest_new();
    int rc = 0;
    for (int64_t offset = 0; !rc && offset < u->size; offset += u->part_bytes) {
        size_t len = (size_t)(u->size - offset < u->part_bytes ? u->size - offset : u->part_bytes);
        if ((rc = read_block(u, offset, u->blocks[0], len, err)))
            break;
        digest_update(digest, u->blocks[0], len);
        if (watch->progress && !watch->progress(watch->ctx, 0, u->size))
            rc = err_set(err, ERR_CANCELLED, "sending %s was cancelled before it began", u->object);
    }
    if (!digest_finish(digest, u->sha256) && !rc)
        rc = err_set(err, ERR_INTERNAL, "%s: OpenSSL could not compute its SHA-256", u->path);
    return rc;
}

static int put_parts(struct upload *u, const struct store_watch *watch, struct err *err) {
    OWNED_MEMORY char *answer = malloc(ANSWER_MAX);
    u->etags = calloc((size_t)u->parts, sizeof *u->etags);
    if (!answer || !u->etags)
        return err_set(err, ERR_EXHAUSTED, "out of memory sending %s", u->object);
    int rc;
    if ((rc = hash_source(u, watch, err)) || (rc = begin(u, answer, err)))
        return rc;
    if ((rc = send_parts(u, watch, err)) || (rc = complete(u, answer, err)))
        give_up(u);
    return rc;
}

static int open_source(struct upload *u, struct err *err) {
    u->fd = open(u->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (u->fd < 0 || fstat(u->fd, &u->before))
        return err_errno(err, errno, "cannot open %s", u->path);
    if (!S_ISREG(u->before.st_mode))
        return err_set(err, ERR_INVALID, "%s is not a file", u->path);
    u->size = u->before.st_size;
    if (u->size > OBJECT_MAX)
        return err_set(err, ERR_RANGE, "%s has %lld bytes; an object of S3 has at most %lld", u->path, (long long)u->size,
                       (long long)OBJECT_MAX);
    u->part_bytes = S3_PART_BYTES;
    while (u->part_bytes * MAX_PARTS < u->size)
        u->part_bytes *= 2;
    u->parts = (u->size + u->part_bytes - 1) / u->part_bytes;
    bool single = u->size <= SINGLE_MAX;
    bool ok = (u->calls = calloc(WINDOW, sizeof *u->calls)) != NULL;
    for (int i = 0; ok && i < (single ? 1 : WINDOW); i++)
        ok = (u->blocks[i] = malloc(single ? (size_t)u->size + 1 : (size_t)u->part_bytes)) != NULL;
    return ok ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory sending %s", u->path);
}

static void upload_done(struct upload *u) {
    if (u->fd >= 0)
        close(u->fd);
    for (int i = 0; i < WINDOW; i++)
        free(u->blocks[i]);
    FREE_MEMBERS(*u, calls, etags);
}

int s3_put(struct store *store, const char *path, const char *key, const struct store_watch *watch, struct err *err) {
    char name[S3_NAME_SIZE];
    OWNED(upload_done) struct upload u = {.s3 = s3_of(store), .path = path, .name = name, .fd = -1};
    int rc = s3_name(u.s3, key, name, err);
    if (rc)
        return rc;
    str_format(u.object, sizeof u.object, "s3://%s/%s", s3_client_bucket(u.s3->client), name);
    if ((rc = open_source(&u, err)))
        return rc;
    return u.size <= SINGLE_MAX ? put_single(&u, watch, err) : put_parts(&u, watch, err);
}
