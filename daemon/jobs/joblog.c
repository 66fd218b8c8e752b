#include "daemon/jobs/joblog.h"

#include "base/log.h"
#include "base/mailbox.h"

enum { STOP_S = 5 };

struct line {
    struct message message;
    char path[4096];
    int64_t time_s;
    long lost; /* lines dropped before it */
    char level[8];
    char text[];
};

struct joblog {
    pthread_t thread;
    struct mailbox *lines;
    atomic_long waiting; /* lines that are not in their files yet */
    long lost;           /* since the last line that was taken */
    bool failing;        /* the thread's: the last line could not be written */
};

static void print(FILE *f, int64_t time_s, const char *level, const char *text) {
    char stamp[40];
    fprintf(f, "%s %s %s\n", clock_utc(time_s * 1000, CLOCK_ISO, stamp, sizeof stamp), level, text);
}

/* 0, or an errno. */
static int write_line(const struct line *l) {
    char text[120];
    FILE *f = fopen(l->path, "ae");
    if (!f)
        return errno;
    if (l->lost && str_format(text, sizeof text, "%ld lines of jobs were lost before this one: the volume did not answer", l->lost))
        print(f, l->time_s, "warn", text);
    print(f, l->time_s, l->level, l->text);
    return fclose(f) ? errno : 0;
}

static void *write_lines(void *arg) {
    struct joblog *log = arg;
    for (struct line *l; (l = (struct line *)mailbox_wait(log->lines, -1));) {
        int code = write_line(l);
        if (code && !log->failing)
            log_warn("a job's log cannot be written", "path=\"%s\" error=\"%s\"", l->path, strerror(code));
        log->failing = code != 0;
        free(l);
        atomic_fetch_sub(&log->waiting, 1);
    }
    return NULL;
}

int joblog_start(struct joblog **ret, struct err *err) {
    struct joblog *log = calloc(1, sizeof *log);
    if (log)
        log->lines = mailbox_new(JOBLOG_MAX, NULL, NULL);
    if (!log || !log->lines || pthread_create(&log->thread, NULL, write_lines, log)) {
        if (log)
            mailbox_free(log->lines);
        free(log);
        return err_set(err, ERR_EXHAUSTED, "cannot start the thread that writes the logs of jobs");
    }
    *ret = log;
    return 0;
}

void joblog_stop(struct joblog *log) {
    struct timespec deadline;
    if (!log)
        return;
    mailbox_close(log->lines);
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += STOP_S;
    if (pthread_timedjoin_np(log->thread, NULL, &deadline)) {
        log_warn("lines of jobs' logs are not written: the volume does not answer", "lines=%ld", atomic_load(&log->waiting));
        pthread_detach(log->thread); /* it still uses the log, which ends with the process */
        return;
    }
    mailbox_free(log->lines);
    free(log);
}

void joblog_append(struct joblog *log, const char *directory, const char *level, const char *text) {
    size_t size = strlen(text) + 1;
    struct line *l = calloc(1, sizeof *l + size);
    if (!l || !str_format(l->path, sizeof l->path, "%s/log.txt", directory)) {
        free(l);
        log->lost++;
        return;
    }
    l->time_s = clock_wall_ms() / 1000;
    l->lost = log->lost;
    str_copy(l->level, sizeof l->level, level);
    memcpy(l->text, text, size);
    for (char *p = l->text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    atomic_fetch_add(&log->waiting, 1);
    if (mailbox_post(log->lines, &l->message)) {
        log->lost = 0;
        return;
    }
    atomic_fetch_sub(&log->waiting, 1);
    free(l);
    log->lost++;
}

bool joblog_written(const struct joblog *log) { return atomic_load(&log->waiting) == 0; }
