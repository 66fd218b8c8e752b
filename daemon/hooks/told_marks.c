#include "daemon/hooks/told_marks.h"

#include <fcntl.h>

#include "base/fsio.h"
#include "base/log.h"
#include "base/volume.h"

/* Others' marks are lost where a daemon tells so much at once that it fills the places: people may then hear twice. The WAYS places
 * of a bucket hold its newest marks, the newest first, so that a few marks of a flood push no other one out. */
enum { PLACES = 1 << 17, WAYS = 8, MARK = LINE_DELIVERY - 1, WAITING_MOST = 1024 };

/* A look, for which a hook waits, or a mark that is to be written. */
struct marks_look {
    struct marks_look *next;
    char id[MARK];
    bool put, done, found, left; /* left: nobody waits for it */
};

/* Its thread alone touches the file, since a folder that hangs would keep each thread of a hook that does. */
struct told_marks {
    char path[4096];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct marks_look *first, **end;
    int waiting;
    int64_t busy_ms; /* since when it is in a call; 0: in none */
    bool failing, stopping, ended, abandoned;
};

static void free_marks(struct told_marks *m) {
    for (struct marks_look *next; m->first; m->first = next) {
        next = m->first->next;
        free(m->first);
    }
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* All places have their blocks, so that a volume that is full later has room for marks. */
static int open_marks(const struct told_marks *m, struct err *err) {
    struct stat st;
    const int fd = open(m->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_errno(err, errno, "%s: cannot be opened", m->path), -1;
    if (!fstat(fd, &st) && st.st_size < (off_t)PLACES * MARK)
        (void)posix_fallocate(fd, 0, (off_t)PLACES * MARK);
    return fd;
}

/* Looks for this id in its bucket, or puts it there. */
static int use(const struct told_marks *m, struct marks_look *look, struct err *err) {
    enum { BUCKET = WAYS * MARK };
    char first[9], marks[MARK + BUCKET] = "", *const held = marks + MARK; /* what is held goes one place back */
    str_format(first, sizeof first, "%.8s", look->id);
    const off_t at = (off_t)(strtoul(first, NULL, 16) % PLACES / WAYS) * BUCKET;
    const int fd = open_marks(m, err);
    if (fd < 0)
        return err->code;
    ssize_t n = pread(fd, held, BUCKET, at);
    const bool read = n >= 0;
    for (int i = 0; i < WAYS; i++)
        look->found |= !memcmp(held + i * MARK, look->id, MARK);
    memcpy(marks, look->id, MARK);
    if (read && look->put && !look->found)
        n = pwrite(fd, marks, BUCKET, at);
    const int code = errno;
    close(fd);
    if (n < 0 || (look->put && n < BUCKET))
        return err_errno(err, n < 0 ? code : ENOSPC, "%s: cannot be %s", m->path, read ? "written" : "read");
    return 0;
}

/* The lock is held. */
static void report(struct told_marks *m, int rc, const struct err *err) {
    char text[800];
    if (rc && !m->failing)
        log_error("it is not known what other daemons have told people, who may hear of alarms twice", "error=\"%s\"",
                  err_text(err, text, sizeof text));
    else if (m->failing && !rc)
        log_info("what other daemons have told people is known again", NULL);
    m->failing = rc != 0;
}

static void *marks_main(void *arg) {
    struct told_marks *m = arg;
    pthread_mutex_lock(&m->lock);
    while (m->first || !m->stopping) {
        struct marks_look *look = m->first;
        struct err err;
        if (!look) {
            pthread_cond_wait(&m->changed, &m->lock);
            continue;
        }
        m->busy_ms = clock_ms();
        pthread_mutex_unlock(&m->lock);
        const int rc = use(m, look, &err);
        pthread_mutex_lock(&m->lock);
        m->busy_ms = 0;
        report(m, rc, &err);
        m->first = look->next;
        m->end = m->first ? m->end : &m->first;
        m->waiting--;
        look->done = true;
        if (look->left)
            free(look);
        pthread_cond_broadcast(&m->changed);
    }
    m->ended = true;
    const bool abandoned = m->abandoned;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    if (abandoned)
        free_marks(m);
    return NULL;
}

int told_marks_open(const char *folder, struct told_marks **ret, struct err *err) {
    struct told_marks *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(err, ERR_EXHAUSTED, "out of memory for hooks");
    const int rc = fsio_join(m->path, sizeof m->path, folder, ".told", err);
    if (rc) {
        free(m);
        return rc;
    }
    m->end = &m->first;
    pthread_mutex_init(&m->lock, NULL);
    clock_cond_init(&m->changed);
    const int code = pthread_create(&m->thread, NULL, marks_main, m);
    if (!code) {
        *ret = m;
        return 0;
    }
    free_marks(m);
    return err_set(err, ERR_EXHAUSTED, "cannot start a thread for %s/.told: %s", folder, strerror(code));
}

/* How long a caller may wait: VOLUME_WAIT_MS, less what the call on its way has had of it. The lock is held. */
static struct timespec answer_due(const struct told_marks *m) {
    const int64_t had_ms = m->busy_ms ? clock_ms() - m->busy_ms : 0;
    return clock_after_ms(had_ms < VOLUME_WAIT_MS ? VOLUME_WAIT_MS - had_ms : 0);
}

void told_marks_close(struct told_marks *m) {
    if (!m)
        return;
    const pthread_t thread = m->thread;
    pthread_mutex_lock(&m->lock);
    const struct timespec until = answer_due(m);
    m->stopping = true;
    pthread_cond_broadcast(&m->changed);
    while (!m->ended && pthread_cond_timedwait(&m->changed, &m->lock, &until) != ETIMEDOUT) {
    }
    const bool ended = m->ended;
    m->abandoned = !ended; /* then the thread frees everything when its call ends */
    pthread_mutex_unlock(&m->lock);
    if (!ended) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    free_marks(m);
}

/* NULL: what comes before it has not been answered for VOLUME_WAIT_MS, or memory is short. The lock is held. */
static struct marks_look *add_look(struct told_marks *m, const char *id, bool put) {
    const bool hangs = m->busy_ms && clock_ms() - m->busy_ms >= VOLUME_WAIT_MS;
    struct marks_look *look = hangs || m->waiting == WAITING_MOST ? NULL : calloc(1, sizeof *look);
    if (!look)
        return NULL;
    memcpy(look->id, id, MARK);
    look->put = look->left = put;
    *m->end = look;
    m->end = &look->next;
    m->waiting++;
    pthread_cond_broadcast(&m->changed);
    return look;
}

bool told_marks_has(struct told_marks *m, const char id[LINE_DELIVERY]) {
    LOCKED(&m->lock);
    struct marks_look *look = add_look(m, id, false);
    const struct timespec until = answer_due(m);
    while (look && !look->done && pthread_cond_timedwait(&m->changed, &m->lock, &until) != ETIMEDOUT) {
    }
    const bool known = look && look->done, found = known && look->found;
    struct err err;
    if (!known)
        report(m, err_set(&err, ERR_UNAVAILABLE, "%s: no answer for %d ms", m->path, VOLUME_WAIT_MS), &err);
    if (known)
        free(look);
    else if (look)
        look->left = true;
    return found;
}

void told_marks_put(struct told_marks *m, const char id[LINE_DELIVERY]) {
    LOCKED(&m->lock);
    (void)add_look(m, id, true);
}
