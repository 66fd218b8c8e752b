#include "daemon/hooks/told_marks.h"

#include <fcntl.h>

#include "base/fsio.h"
#include "base/log.h"
#include "base/volume.h"

/* Others' marks are lost where a daemon tells so much at once that it fills the places: people may then hear twice. */
enum { PLACES = 1 << 17, MARK = LINE_DELIVERY - 1 };

struct told_marks {
    char path[4096];
    struct volume *volume;
    atomic_bool failing;
};

int told_marks_open(const char *folder, struct told_marks **ret, struct err *err) {
    struct told_marks *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(err, ERR_EXHAUSTED, "out of memory for hooks");
    int rc = fsio_join(m->path, sizeof m->path, folder, ".told", err);
    rc = rc ? rc : volume_open(folder, &m->volume, err);
    if (rc)
        free(m);
    else
        *ret = m;
    return rc;
}

void told_marks_close(struct told_marks *m) {
    if (!m)
        return;
    volume_close(m->volume);
    free(m);
}

/* All places have their blocks, so that a volume that is full later has room for marks. */
static int open_marks(const struct told_marks *m, struct err *err) {
    struct stat st;
    const int fd = open(m->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, errno, "%s: cannot be opened", m->path), -1;
    if (!fstat(fd, &st) && st.st_size < (off_t)PLACES * MARK)
        (void)posix_fallocate(fd, 0, (off_t)PLACES * MARK);
    return fd;
}

/* Reads what has the place of this id, or puts it there. */
static int use(const struct told_marks *m, const char *id, char place[MARK], bool put, struct err *err) {
    char first[9];
    str_format(first, sizeof first, "%.8s", id);
    const off_t at = (off_t)(strtoul(first, NULL, 16) % PLACES) * MARK;
    if (!volume_answers(m->volume))
        return err_set(err, ERR_UNAVAILABLE, "%s: its volume does not answer", m->path);
    const int fd = open_marks(m, err);
    if (fd < 0)
        return err->code;
    const ssize_t n = put ? pwrite(fd, id, MARK, at) : pread(fd, place, MARK, at);
    const int code = errno;
    close(fd);
    if (n < 0 || (put && n < MARK))
        return err_errno(err, n < 0 ? code : ENOSPC, "%s: cannot be %s", m->path, put ? "written" : "read");
    return 0;
}

static void report(struct told_marks *m, int rc, const struct err *err) {
    char text[800];
    const bool fails = rc != 0, before = atomic_exchange(&m->failing, fails);
    if (fails && !before)
        log_error("it is not known what other daemons have told people, who may hear of alarms twice", "error=\"%s\"",
                  err_text(err, text, sizeof text));
    else if (before && !fails)
        log_info("what other daemons have told people is known again", NULL);
}

bool told_marks_has(struct told_marks *m, const char id[LINE_DELIVERY]) {
    char place[MARK] = "";
    struct err err;
    int rc = use(m, id, place, false, &err);
    report(m, rc, &err);
    return !rc && !memcmp(place, id, MARK);
}

void told_marks_put(struct told_marks *m, const char id[LINE_DELIVERY]) {
    struct err err;
    report(m, use(m, id, NULL, true, &err), &err);
}
