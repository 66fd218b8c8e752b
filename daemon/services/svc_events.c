/* brr.v1.Jobs/Events: what a detect job found, recording by recording, as the client reads it. Files are read on libuv's thread
 * pool, a recording at a time. */

#include "brr/v1/jobs.pb-c.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"
#include "detect/detect_list.h"
#include "work/kind.h"

enum { PART_BYTES = 256 * 1024, MAX_TSV_BYTES = 256 << 20 };

struct reading {
    struct offload work;
    FILE *list; /* NULL until the pool has opened it */
    char id[JOB_ID_SIZE];
    const char *state;    /* of the job, for an error */
    char directory[2048]; /* the job's */
    struct detect_row row;
    char *tsv; /* of the row; NULL: the next row is due, if there is one */
    size_t len, at;
    char line[DETECT_LIST_LINE];
};

/* The next row with its table, if there is one. A table that cannot be read is the row's error. */
static void next_row(struct reading *r) {
    char path[DETECT_LIST_PATH], text[800];
    struct err err;
    errno = 0;
    if (!fgets(r->line, sizeof r->line, r->list) && ferror(r->list))
        err_errno(&r->work.err, errno, "cannot read %s of job %s", DETECT_LIST_NAME, r->id);
    if (ferror(r->list) || feof(r->list))
        return; /* at the end, or where a line is being written */
    if (detect_row_read(r->line, strcspn(r->line, "\n"), &r->row, &r->work.err)) {
        err_wrap(&r->work.err, "job %s", r->id);
        return;
    }
    r->at = r->len = 0;
    if (!*r->row.error && (detect_events_path(r->directory, &r->row, path, sizeof path, &err) ||
                           fsio_read(path, MAX_TSV_BYTES, &r->tsv, &r->len, &err)))
        str_copy(r->row.error, sizeof r->row.error, err_text(&err, text, sizeof text));
    if (!r->tsv)
        r->tsv = strdup("");
    if (!r->tsv)
        err_set(&r->work.err, ERR_EXHAUSTED, "out of memory reading the events of job %s", r->id);
}

/* One message of the row. */
static void pack_events(struct reading *r) {
    Brr__V1__JobEvents out = BRR__V1__JOB_EVENTS__INIT;
    size_t n = r->len - r->at < PART_BYTES ? r->len - r->at : PART_BYTES;
    COPY_MEMBERS(out, r->row, recording, error, note, duration_s, events, seizure_s, suppressed_s, bursts, largest_suppression);
    out.highest_probability = r->row.highest;
    COPY_MEMBERS(out, r->row, threshold_on, format);
    out.tsv.data = (uint8_t *)r->tsv + r->at;
    out.tsv.len = n;
    r->at += n;
    out.more = r->at < r->len;
    offload_pack(&r->work, &out.base);
    if (out.more)
        return;
    free(r->tsv);
    r->tsv = NULL;
}

static int open_list(struct reading *r, struct err *err) {
    char path[DETECT_LIST_PATH];
    if (!str_format(path, sizeof path, "%s/%s", r->directory, DETECT_LIST_NAME))
        return err_set(err, ERR_RANGE, "the path of the job's directory is too long");
    if ((r->list = fopen(path, "re")))
        return 0;
    return errno == ENOENT
               ? err_set(err, ERR_PRECONDITION, "job %s has the state %s and has no recording done yet", r->id, r->state)
               : err_errno(err, errno, "cannot open %s", path);
}

/* On the pool. */
static void next_part(struct offload *work) {
    struct reading *r = (struct reading *)work;
    if (!r->list && open_list(r, &work->err))
        return;
    if (!r->tsv)
        next_row(r);
    if (r->tsv)
        pack_events(r);
}

static void drop(struct offload *work) {
    struct reading *r = (struct reading *)work;
    if (r->list)
        fclose(r->list);
    free(r->tsv);
}

static int events(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__JobEventsRequest *in = message;
    const struct job *job = NULL;
    const struct task_kind *kind;
    rpc_concerns(call, "job", in->id);
    int rc = services_find_job(call, in->id, &job, err);
    if (rc)
        return rc;
    if (!(kind = task_kind_find(job->kind)) || !kind->events)
        return err_set(err, ERR_PRECONDITION, "job %s is of kind %s, which keeps no events for clients; a detect job does", job->id,
                       job->kind);
    struct reading *r = offload_new(call, OFFLOAD_LOGS, sizeof *r, drop, err);
    if (!r)
        return err->code;
    str_copy(r->id, sizeof r->id, job->id);
    r->state = job_state_name(job->state);
    str_copy(r->directory, sizeof r->directory, job->directory);
    offload_stream(&r->work, next_part);
    return 0;
}

const struct rpc_method svc_events[] = {
    {RPC_METHOD("/brr.v1.Jobs/Events", ROLE_READ, brr__v1__job_events_request, events), .reading = true,
     .writable = offload_writable, .end = offload_end},
    {.path = NULL},
};
