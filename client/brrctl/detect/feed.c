#include "client/brrctl/detect/feed.h"

#include <poll.h>
#include <signal.h>

#include "base/needed.h"
#include "formats/edf.h"

enum { FIXED_BYTES = 256, WAIT_MS = 20, BATCH_BYTES = 2 << 20, MAX_RECORD_BYTES = 64 << 20, PIPE_BYTES = 1 << 20 };

struct feed {
    int fd;
    const char *name;
    bool grows;             /* a file: its end is not the end */
    int64_t idle_ms;        /* 0 = never */
    int64_t quiet_since_ms; /* 0: bytes came just now */
    int64_t at, stop_at;    /* offset in the file; where to end after a signal, -1 = no signal yet */
    struct eegfile *edf;
    uint8_t front[FIXED_BYTES]; /* of the header */
    size_t front_bytes;         /* of it, to be looked for where the samples begin; 0: they were seen, or are in another file */
    uint8_t *bytes;             /* records, the last perhaps in part */
    size_t capacity, have, handed_on;
    const char *ended;
};

static volatile sig_atomic_t stop_signal;

static void on_signal(int signum) { stop_signal = signum; }

/* The first signal ends the feed, the next one the process. */
static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* A file that became shorter has lost what was sent. */
static int check_size(const struct feed *f, struct err *err) {
    struct stat st;
    if (fstat(f->fd, &st) < 0)
        return err_errno(err, errno, "cannot read %s", f->name);
    if (st.st_size < f->at)
        return err_set(err, ERR_DATA_LOSS, "%s became shorter while it was followed: it has %lld bytes, %lld were already read",
                       f->name, (long long)st.st_size, (long long)f->at);
    return 0;
}

/* True if it ends here, with nothing to read at present. */
static bool over(struct feed *f) {
    int64_t now = clock_ms();
    if (!f->quiet_since_ms)
        f->quiet_since_ms = now;
    if (stop_signal)
        f->ended = "interrupted";
    else if (f->idle_ms && now - f->quiet_since_ms >= f->idle_ms)
        f->ended = "idle";
    return *f->ended != '\0';
}

/* After a signal a file is read to the end it has by then, a pipe no further. */
static size_t allowed(struct feed *f, size_t wanted) {
    struct stat st;
    if (!stop_signal)
        return wanted;
    if (f->stop_at < 0)
        f->stop_at = f->grows && !fstat(f->fd, &st) ? st.st_size : f->at;
    int64_t left = f->stop_at - f->at;
    return left <= 0 ? 0 : left < (int64_t)wanted ? (size_t)left : wanted;
}

/* Reads the bytes that are available, at most `wanted`; *ret 0 after a short wait, or at the end (f->ended). */
static int take_bytes(struct feed *f, uint8_t *to, size_t wanted, size_t *ret, struct err *err) {
    struct pollfd p = {.fd = f->fd, .events = POLLIN};
    *ret = 0;
    wanted = allowed(f, wanted);
    ssize_t n = -1;
    bool readable = wanted && (f->grows || poll(&p, 1, WAIT_MS) > 0);
    if (readable && (n = read(f->fd, to, wanted)) < 0 && errno != EINTR && errno != EAGAIN)
        return err_errno(err, errno, "cannot read %s", f->name);
    if (n > 0) {
        f->at += n;
        f->quiet_since_ms = 0;
        *ret = (size_t)n;
        return 0;
    }
    if (n == 0 && !f->grows)
        f->ended = "input";
    else if (f->grows && check_size(f, err))
        return err->code;
    else if (!over(f) && f->grows)
        poll(NULL, 0, WAIT_MS);
    return 0;
}

/* Fill `to` up to len; *ret is less only at the end. */
static int take_all(struct feed *f, uint8_t *to, size_t len, size_t *ret, struct err *err) {
    *ret = 0;
    while (*ret < len && !*f->ended) {
        size_t n;
        int rc = take_bytes(f, to + *ret, len - *ret, &n, err);
        if (rc)
            return rc;
        *ret += n;
    }
    return 0;
}

/* Room for records, once the header is known. */
static int feed_room(struct feed *f, struct err *err) {
    int64_t record = eegfile_record_bytes(f->edf);
    if (record > MAX_RECORD_BYTES)
        return err_set(err, ERR_RANGE, "%s: a record has %lld bytes; records of at most %d bytes can be followed", f->name,
                       (long long)record, MAX_RECORD_BYTES);
    f->capacity = (size_t)(record > BATCH_BYTES ? record : BATCH_BYTES / record * record);
    f->bytes = needed(malloc(f->capacity));
    return 0;
}

/* A recording whose samples grow in a file beside its header. */
static int open_beside_header(struct feed *f, const char *path, struct err *err) {
    struct eegfile_growth growth;
    int rc = eegfile_open_growing(path, &f->edf, &growth, err);
    if (rc)
        return rc;
    f->fd = open(growth.path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0 || lseek(f->fd, growth.offset, SEEK_SET) < 0)
        return err_errno(err, errno, "cannot open %s", growth.path);
    f->at = growth.offset;
    f->grows = true;
    catch_signals();
    return feed_room(f, err);
}

static int parse_header(struct feed *f, const uint8_t *header, size_t len, struct err *err) {
    if (*f->ended && strcmp(f->ended, "input") != 0)
        return err_set(err, stop_signal ? ERR_CANCELLED : ERR_DEADLINE,
                       "%s: %s before its header was complete; %zu bytes were read", f->name, f->ended, len);
    int rc = edf_open_feed(header, len, f->name, &f->edf, err);
    if (rc)
        return rc;
    return feed_room(f, err);
}

/* Bytes behind the header that its field counts as well; they are the first ones of a record if one of them is not blank. */
static int skip_padding(struct feed *f, int64_t n, struct err *err) {
    size_t most = (size_t)n, got = 0;
    if (most > f->capacity) {
        f->bytes = needed(realloc(f->bytes, most));
        f->capacity = most;
    }
    int rc = take_all(f, f->bytes, most, &got, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < got && !f->have; i++)
        f->have = f->bytes[i] == ' ' ? 0 : got;
    return 0;
}

static int read_header(struct feed *f, struct err *err) {
    uint8_t fixed[FIXED_BYTES];
    size_t len, more = 0;
    int rc = take_all(f, fixed, sizeof fixed, &len, err);
    if (rc)
        return rc;
    int64_t size = len == sizeof fixed ? edf_header_bytes(fixed) : -1;
    if (size < 0) /* says why */
        return parse_header(f, fixed, len, err);
    OWNED_MEMORY uint8_t *header = needed(malloc((size_t)size));
    memcpy(header, fixed, sizeof fixed);
    memcpy(f->front, fixed, sizeof fixed);
    f->front_bytes = sizeof fixed;
    if ((rc = take_all(f, header + len, (size_t)size - len, &more, err)))
        return rc;
    int64_t padding = edf_header_padding(fixed);
    rc = parse_header(f, header, len + more, err);
    return rc || !padding ? rc : skip_padding(f, padding, err);
}

static int open_input(struct feed *f, const char *path, bool input, struct err *err) {
    struct stat st;
    if (!input && eegfile_has_parts(path))
        return open_beside_header(f, path, err);
    f->fd = input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0)
        return err_errno(err, errno, "cannot open %s", path);
    if (fstat(f->fd, &st) < 0)
        return err_errno(err, errno, "cannot read %s", f->name);
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID, "%s is a folder; expected an EDF or BDF file", f->name);
    if (input && isatty(f->fd))
        return err_set(err, ERR_INVALID, "standard input is a terminal; pipe an EDF or BDF file into it");
    f->grows = !input && S_ISREG(st.st_mode);
    if (S_ISFIFO(st.st_mode))
        (void)fcntl(f->fd, F_SETPIPE_SZ, PIPE_BYTES); /* for a recorder that may not wait while a stream opens */
    catch_signals();
    return read_header(f, err);
}

int feed_open(const char *path, double idle_s, const char *unit, struct feed **ret, struct err *err) {
    bool input = !strcmp(path, "-");
    struct feed *f = needed(calloc(1, sizeof *f));
    *f = (struct feed){.name = input ? "standard input" : path, .idle_ms = (int64_t)(idle_s * 1000), .stop_at = -1, .ended = ""};
    int rc = open_input(f, path, input, err);
    rc = rc ? rc : eegfile_assume_unit(f->edf, unit, err);
    return GIVEN(ret, f, feed_close, rc);
}

void feed_close(struct feed *f) {
    if (!f)
        return;
    eegfile_close(f->edf);
    if (f->fd > STDIN_FILENO)
        close(f->fd);
    free(f->bytes);
    free(f);
}

const struct eegfile *feed_edf(const struct feed *f) { return f->edf; }
const char *feed_ended(const struct feed *f) { return f->ended; }
int64_t feed_left_bytes(const struct feed *f) { return (int64_t)(f->have - f->handed_on); }

/* Samples that begin as the header does are a second one, which would be read as an event. Until so much is there, nothing is
 * handed on. */
static int check_front(struct feed *f, struct err *err) {
    if (!f->front_bytes || (f->have < f->front_bytes && !*f->ended))
        return 0;
    const bool twice = f->have >= f->front_bytes && !memcmp(f->bytes, f->front, f->front_bytes);
    f->front_bytes = 0;
    return twice ? err_set(err, ERR_INVALID, "%s: the header stands twice; expected samples behind it", f->name) : 0;
}

int feed_next(struct feed *f, int64_t *ret_records, struct err *err) {
    size_t n = 0, record = (size_t)eegfile_record_bytes(f->edf);
    memmove(f->bytes, f->bytes + f->handed_on, f->have - f->handed_on);
    f->have -= f->handed_on;
    f->handed_on = 0;
    int rc = *f->ended ? 0 : take_bytes(f, f->bytes + f->have, f->capacity - f->have, &n, err);
    if (rc)
        return rc;
    f->have += n;
    if ((rc = check_front(f, err)))
        return rc;
    f->handed_on = f->front_bytes ? 0 : f->have / record * record;
    *ret_records = (int64_t)(f->handed_on / record);
    if (!*ret_records && *f->ended)
        *ret_records = -1;
    return *ret_records > 0 ? eegfile_feed(f->edf, f->bytes, *ret_records, err) : 0;
}
