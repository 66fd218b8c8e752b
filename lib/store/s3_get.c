/* get of store/s3.h: ranges of one object side by side into PATH.part, each checked and noted in PATH.part.journal. */
#include <sys/file.h>

#include "store/s3_object.h"

enum { PATH_BYTES = 4096, JOURNAL_MAX = 64 << 20 };

struct download {
    struct s3 *s3;
    const char *path, *name;
    struct s3_head head;
    char object[300], part_path[PATH_BYTES], journal_path[PATH_BYTES], title[400];
    int part_fd, journal_fd;
    int64_t parts, next, done_bytes;
    bool *have, untrue;
    uint64_t *sums;        /* CRCs of the parts */
    struct s3_call *calls; /* S3_CONNECTIONS of them */
    int64_t part_of[S3_CONNECTIONS];
};

static int64_t part_length(const struct download *d, int64_t part) {
    int64_t left = d->head.size_bytes - part * S3_PART_BYTES;
    return left < S3_PART_BYTES ? left : S3_PART_BYTES;
}

/* True if the bytes of a part in the file are those the journal noted. */
static bool part_holds(const struct download *d, int64_t part, char *block) {
    size_t len = (size_t)part_length(d, part), done = 0;
    while (done < len) {
        ssize_t n = pread(d->part_fd, block + done, len - done, (off_t)(part * S3_PART_BYTES + (int64_t)done));
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    struct crc *crc = crc_new(d->head.crc_kind, false);
    crc_update(crc, block, len);
    return crc && crc_finish(crc) == d->sums[part];
}

/* Parts of an earlier get that hold. Anything odd in the journal only means that more is fetched again. */
static bool resume(struct download *d) {
    char *text = NULL, *block = NULL;
    size_t len = 0;
    struct stat st;
    if (fstat(d->part_fd, &st) || st.st_size != d->head.size_bytes || fsio_read(d->journal_path, JOURNAL_MAX, &text, &len, NULL))
        return false;
    char *rest = text, *line = strsep(&rest, "\n");
    bool same = line && !strcmp(line, d->title) && (block = malloc(S3_PART_BYTES));
    while (same && rest && (line = strsep(&rest, "\n")) && rest) { /* a line without its end was torn */
        int64_t part;
        char *space = strchr(line, ' ');
        if (!space)
            continue;
        *space = '\0';
        if (!str_to_i64(line, &part) || part < 0 || part >= d->parts || d->have[part])
            continue;
        d->sums[part] = strtoull(space + 1, NULL, 16);
        if (part_holds(d, part, block)) {
            d->have[part] = true;
            d->done_bytes += part_length(d, part);
        }
    }
    free(block);
    free(text);
    return same;
}

static int note(struct download *d, const char *line, struct err *err) {
    size_t len = strlen(line);
    return write(d->journal_fd, line, len) == (ssize_t)len
               ? 0
               : err_errno(err, errno ? errno : EIO, "cannot write %s", d->journal_path);
}

static int open_files(struct download *d, struct err *err) {
    char line[sizeof d->title + 1];
    if (!str_format(d->part_path, sizeof d->part_path, "%s.part", d->path) ||
        !str_format(d->journal_path, sizeof d->journal_path, "%s.part.journal", d->path))
        return err_set(err, ERR_RANGE, "%.200s…: the path is too long", d->path);
    d->part_fd = open(d->part_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (d->part_fd < 0)
        return err_errno(err, errno, "cannot write %s", d->part_path);
    if (flock(d->part_fd, LOCK_EX | LOCK_NB))
        return err_set(err, ERR_PRECONDITION, "%s is being written by another process; wait for it", d->part_path);
    bool resumed = resume(d);
    d->journal_fd = open(d->journal_path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (resumed ? 0 : O_TRUNC), 0644);
    if (d->journal_fd < 0)
        return err_errno(err, errno, "cannot write %s", d->journal_path);
    if (resumed)
        return note(d, "\n", err); /* ends a torn line */
    if (ftruncate(d->part_fd, 0) || ftruncate(d->part_fd, (off_t)d->head.size_bytes))
        return err_errno(err, errno, "cannot write %s", d->part_path);
    int64_t room = fsio_free_bytes(d->part_path);
    if (room >= 0 && room < d->head.size_bytes)
        return err_errno(err, ENOSPC, "%s needs %lld bytes, its volume has %lld free", d->path, (long long)d->head.size_bytes,
                         (long long)room);
    str_format(line, sizeof line, "%s\n", d->title);
    return note(d, line, err);
}

/* Give a free call the next part that is missing. */
static int assign(void *ctx, int i, bool *ret_more, struct err *err) {
    (void)err;
    struct download *d = ctx;
    while (d->next < d->parts && d->have[d->next])
        d->next++;
    *ret_more = d->next < d->parts;
    if (!*ret_more)
        return 0;
    int64_t part = d->part_of[i] = d->next++;
    size_t len = (size_t)part_length(d, part);
    d->calls[i] = (struct s3_call){.method = "GET",
                                   .key = d->name,
                                   .first = part * S3_PART_BYTES,
                                   .length = (int64_t)len,
                                   .total = d->head.size_bytes,
                                   .if_match = *d->head.etag ? d->head.etag : NULL,
                                   .fd = d->part_fd,
                                   .offset = part * S3_PART_BYTES,
                                   .cap = len,
                                   .crc = true,
                                   .crc_kind = d->head.crc_kind};
    return 0;
}

static int finish_part(void *ctx, int i, struct err *err) {
    struct download *d = ctx;
    char line[48];
    int64_t part = d->part_of[i];
    d->have[part] = true;
    d->sums[part] = d->calls[i].sum;
    d->done_bytes += part_length(d, part);
    str_format(line, sizeof line, "%lld %016llx\n", (long long)part, (unsigned long long)d->sums[part]);
    s3_call_done(d->s3->client, &d->calls[i]);
    return note(d, line, err);
}

/* All missing parts, S3_CONNECTIONS at a time. */
static int transfer(struct download *d, const struct store_watch *watch, struct err *err) {
    const struct s3_batch batch = {.calls = d->calls,
                                   .n = S3_CONNECTIONS,
                                   .ctx = d,
                                   .next = assign,
                                   .ended = finish_part,
                                   .watch = watch,
                                   .done_bytes = &d->done_bytes,
                                   .size_bytes = d->head.size_bytes,
                                   .verb = "fetching",
                                   .object = d->object};
    int rc = s3_batch_run(d->s3->client, &batch, err);
    for (int i = 0; rc && i < S3_CONNECTIONS; i++)
        if (d->calls[i].fetch.sink_errno)
            rc = err_errno(err, d->calls[i].fetch.sink_errno, "cannot write %s", d->part_path);
    return rc;
}

/* The parts as they arrived, against the CRC that the server has of the whole. */
static int check_crc(const struct download *d, struct err *err) {
    char got[20], want[20];
    uint64_t sum = 0;
    int digits = crc_bits(d->head.crc_kind) / 4;
    for (int64_t part = 0; part < d->parts; part++)
        sum = crc_join(d->head.crc_kind, sum, d->sums[part], (uint64_t)part_length(d, part));
    if (!d->head.has_crc || sum == d->head.crc)
        return 0;
    str_format(got, sizeof got, "%0*llx", digits, (unsigned long long)sum);
    str_format(want, sizeof want, "%0*llx", digits, (unsigned long long)d->head.crc);
    return s3_untrue(d->object, crc_name(d->head.crc_kind), got, want, err);
}

/* Whole and true: under its name, durably. */
static int put_in_place(struct download *d, struct err *err) {
    int rc;
    if ((rc = check_crc(d, err)) ||
        (rc = s3_verify(d->s3, d->part_path, d->object, &d->head, err))) { /* the parts are not to be trusted */
        d->untrue = rc == ERR_DATA_LOSS;
        unlink(d->journal_path);
        unlink(d->part_path);
        return rc;
    }
    if (fsync(d->part_fd))
        return err_errno(err, errno, "cannot put %s in place", d->path);
    if ((rc = fsio_rename(d->part_path, d->path, err)))
        return rc;
    unlink(d->journal_path);
    return 0;
}

static int prepare(struct download *d, const struct store_watch *watch, struct err *err) {
    char name_hash[DIGEST_HEX_SIZE], tag[STORE_TAG_SIZE];
    int rc;
    if ((rc = s3_head(d->s3, d->name, watch, &d->head, err)))
        return rc;
    if (watch->progress && !watch->progress(watch->ctx, 0, d->head.size_bytes)) /* before room is set aside */
        return err_set(err, ERR_CANCELLED, "fetching %.200s was cancelled before it began", d->name);
    s3_tag(d->head.etag, tag);
    if (watch->tag && *watch->tag && strcmp(watch->tag, tag) != 0)
        return err_set(err, ERR_ABORTED, "s3://%s/%s changed since it was listed (ETag %s, was %s); list it again",
                       s3_client_bucket(d->s3->client), d->name, tag, watch->tag);
    d->parts = (d->head.size_bytes + S3_PART_BYTES - 1) / S3_PART_BYTES;
    d->have = calloc((size_t)d->parts + 1, sizeof *d->have);
    d->sums = calloc((size_t)d->parts + 1, sizeof *d->sums);
    d->calls = calloc(S3_CONNECTIONS, sizeof *d->calls);
    str_format(d->object, sizeof d->object, "s3://%s/%s", s3_client_bucket(d->s3->client), d->name);
    if (!d->have || !d->sums || !d->calls || !digest_bytes(d->name, strlen(d->name), name_hash))
        return err_set(err, ERR_EXHAUSTED, "out of memory fetching %s", d->object);
    str_format(d->title, sizeof d->title, "brrd-part 3 %lld %d %s %s %s", (long long)d->head.size_bytes, (int)S3_PART_BYTES,
               crc_name(d->head.crc_kind), d->head.etag, name_hash);
    return open_files(d, err);
}

static int transfer_and_put(struct download *d, const struct store_watch *watch, struct err *err) {
    int rc;
    if ((rc = prepare(d, watch, err)))
        return rc;
    bool in_batch = s3_in_batch(d->s3, &d->head);
    if (in_batch)
        md5_batch_enter(d->s3->md5_batch);
    rc = transfer(d, watch, err);
    rc = rc ? rc : put_in_place(d, err);
    if (in_batch)
        md5_batch_leave(d->s3->md5_batch);
    return rc;
}

static void download_done(struct download *d) {
    if (d->journal_fd >= 0)
        close(d->journal_fd);
    if (d->part_fd >= 0)
        close(d->part_fd);
    FREE_MEMBERS(*d, have, sums, calls);
}

/* *ret_untrue: it arrived, but its sum is another one. */
static int get_once(struct s3 *s3, const char *name, const char *path, const struct store_watch *watch, bool *ret_untrue,
                    struct err *err) {
    OWNED(download_done) struct download d = {.s3 = s3, .path = path, .name = name, .part_fd = -1, .journal_fd = -1};
    int rc = transfer_and_put(&d, watch, err);
    if (rc == ERR_ABORTED || (rc && !d.done_bytes && d.journal_fd >= 0)) { /* another version, or nothing to go on from */
        unlink(d.journal_path);
        unlink(d.part_path);
    }
    *ret_untrue = d.untrue;
    return rc;
}

int s3_get(struct store *store, const char *key, const char *path, const struct store_watch *watch, struct err *err) {
    char name[S3_NAME_SIZE];
    bool untrue = false;
    int rc;
    if ((rc = s3_name(s3_of(store), key, name, err)))
        return rc;
    rc = get_once(s3_of(store), name, path, watch, &untrue, err);
    if (untrue) /* a part that an earlier process left, or a fault on the way: once more, all of it */
        rc = get_once(s3_of(store), name, path, watch, &untrue, err);
    return rc;
}

/* The journal: its title, and for each part a number and a sum. A part that was resumed and lost may be noted twice. */
int64_t s3_get_beside(int64_t bytes) {
    enum { TITLE = sizeof((struct download *)0)->title + 1, LINES = 2 * (20 + 1 + 16 + 2) };
    return TITLE + LINES * (bytes / S3_PART_BYTES + 1);
}
