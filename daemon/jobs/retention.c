#include "daemon/jobs/retention.h"

#include "base/log.h"
#include "base/trusted_time.h"

enum { PASS_MS = 60 * 1000, LEAST_PASS_MS = 1000 }; /* between looks that found nothing to do */

/* A folder whose removal an earlier process did not finish. */
struct orphan {
    struct orphan *next;
    struct jobdb_removal removal;
};

struct retention {
    struct retention_config config;
    struct orphan *orphans;
    uv_work_t work;
    struct db_wait recorded; /* of the removal */
    bool working, measures;  /* else it removes */
    int64_t next_ms;         /* monotonic */
    struct trusted_time time;
    char id[JOB_ID_SIZE], folder[2048];
    int64_t bytes;
    struct err err;
};

static int64_t wall_ms(const struct retention *r) { return r->config.wall_ms ? r->config.wall_ms() : clock_wall_ms(); }

static int add_size(void *ctx, const char *path, int64_t bytes, struct err *err) {
    (void)path, (void)err;
    *(int64_t *)ctx += bytes;
    return 0;
}

static void run(uv_work_t *work) {
    struct retention *r = work->data;
    r->bytes = 0;
    if (r->measures)
        fsio_walk(r->folder, add_size, &r->bytes, NULL); /* a folder that is gone has no bytes */
    else
        removal_files(r->folder, &r->err);
}

static void done(uv_work_t *work, int status) {
    struct retention *r = work->data;
    char text[800];
    (void)status;
    r->working = false;
    if (r->measures)
        sched_measured(r->config.removal.sched, r->id, r->bytes);
    else if (r->err.code)
        log_warn("folder of a deleted job", "job=%s error=\"%s\"", r->id, err_text(&r->err, text, sizeof text));
    else
        removal_end(&r->config.removal, r->id);
    retention_tick(r);
}

static void begin(struct retention *r, bool measures) {
    r->measures = measures;
    r->working = true;
    r->err.code = 0;
    uv_queue_work(r->config.loop, &r->work, run, done); /* fails only if the work function is NULL */
}

static void on_recorded(struct db_wait *wait, int rc, const struct err *err) {
    struct retention *r = (struct retention *)((char *)wait - offsetof(struct retention, recorded));
    r->working = false;
    if (rc)
        log_warn("an old job is not deleted yet", "job=%s error=\"%s\"", r->id, err->message);
    else
        begin(r, false);
}

/* Tried once; what cannot be removed waits for the next start. */
static bool remove_orphan(struct retention *r) {
    struct orphan *first = r->orphans;
    if (!first)
        return false;
    str_copy(r->id, sizeof r->id, first->removal.job_id);
    str_copy(r->folder, sizeof r->folder, first->removal.folder);
    r->orphans = first->next;
    free(first);
    log_info("finishing the removal of a deleted job", "job=%s folder=%s", r->id, r->folder);
    begin(r, false);
    return true;
}

static bool remove_job(struct retention *r, const struct job *job, const char *why) {
    str_copy(r->id, sizeof r->id, job->id);
    if (removal_record(&r->config.removal, r->id, r->folder, &r->err))
        return false;
    log_info("old job deleted", "job=%s reason=%s", r->id, why);
    r->working = true;
    sched_await(r->config.removal.sched, &r->recorded, on_recorded);
    return true;
}

/* True if a folder has to be measured first. */
static bool measure_next(struct retention *r, int64_t *ret_total) {
    const struct sched *s = r->config.removal.sched;
    *ret_total = 0;
    for (int i = 0; i < sched_count(s); i++) {
        const struct job *job = sched_at(s, i);
        if (!job_is_over(job->state) || job->leaving)
            continue;
        if (job->files_bytes < 0) {
            str_copy(r->id, sizeof r->id, job->id);
            str_copy(r->folder, sizeof r->folder, job->directory);
            begin(r, true);
            return true;
        }
        *ret_total += job->files_bytes;
    }
    return false;
}

/* Deletes the oldest job that may be deleted, if one has to be. */
static bool remove_next(struct retention *r, int64_t total) {
    const struct sched *s = r->config.removal.sched;
    int64_t now_ms = wall_ms(r);
    const bool steady = trusted_time_look(&r->time, trusted_boot_ms(), clock_wall_ms(), r->config.age_ms);
    for (int i = 0; i < sched_count(s); i++) {
        const struct job *job = sched_at(s, i);
        if (!job_is_over(job->state) || job->leaving)
            continue;
        bool old = r->config.age_ms >= 0 && (steady || r->config.wall_ms) && job->finished_ms &&
                   job->finished_ms < now_ms - r->config.age_ms;
        bool large = r->config.max_bytes >= 0 && total > r->config.max_bytes && job->files_bytes > 0;
        if ((old || large) && remove_job(r, job, old ? "age" : "size"))
            return true;
    }
    return false;
}

/* A short lifetime is looked at as often as it may end. */
static int64_t pass_ms(const struct retention *r) {
    const int64_t age_ms = r->config.age_ms < LEAST_PASS_MS ? LEAST_PASS_MS : r->config.age_ms;
    return r->config.age_ms >= 0 && age_ms < PASS_MS ? age_ms : PASS_MS;
}

void retention_tick(struct retention *r) {
    int64_t total = 0;
    if (r->working || clock_ms() < r->next_ms || !sched_writable(r->config.removal.sched))
        return;
    if (remove_orphan(r) || (r->config.max_bytes >= 0 && measure_next(r, &total)) || remove_next(r, total))
        return;
    r->next_ms = clock_ms() + pass_ms(r);
}

static int add_orphan(void *ctx, const struct jobdb_removal *removal, struct err *err) {
    struct retention *r = ctx;
    struct orphan *orphan = malloc(sizeof *orphan);
    if (!orphan)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the folders of deleted jobs");
    *orphan = (struct orphan){r->orphans, *removal};
    r->orphans = orphan;
    return 0;
}

int retention_new(const struct retention_config *config, struct retention **ret, struct err *err) {
    struct retention *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the retention of jobs");
    r->config = *config;
    r->work.data = r;
    int rc = jobdb_removals(config->removal.db, add_orphan, r, err);
    return GIVEN(ret, r, retention_free, rc);
}

void retention_free(struct retention *r) {
    for (struct orphan *next; r && r->orphans; r->orphans = next) {
        next = r->orphans->next;
        free(r->orphans);
    }
    free(r);
}
