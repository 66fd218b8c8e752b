/* brr.v1.Jobs/Events: what a detect job found, recording by recording, as the client reads it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fsio.h"
#include "base/str.h"
#include "brr/v1/jobs.pb-c.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/services.h"
#include "run/detect_list.h"

enum { PART_BYTES = 256 * 1024, MAX_TSV_BYTES = 256 << 20 };

struct reading {
    struct rpc_call *call;
    FILE *list;
    char directory[2048]; /* the job's */
    struct detect_row row;
    char *tsv; /* of the row; NULL: the next row is due */
    size_t len, at;
    char line[DETECT_LIST_LINE];
};

static struct services *services_of(const struct rpc_call *call) { return rpc_context(call); }

/* The next row with its table; false when there is none. A table that cannot be read is the row's error. */
static bool next_row(struct reading *r) {
    char path[DETECT_LIST_PATH], text[800];
    struct err err;
    do {
        if (!fgets(r->line, sizeof r->line, r->list) || !strchr(r->line, '\n'))
            return false; /* at the end, or where a line is being written */
    } while (detect_row_read(r->line, strlen(r->line) - 1, &r->row, NULL));
    r->at = r->len = 0;
    if (!*r->row.error && (detect_events_path(r->directory, r->row.recording, path, sizeof path, &err) ||
                           fsio_read(path, MAX_TSV_BYTES, &r->tsv, &r->len, &err)))
        str_copy(r->row.error, sizeof r->row.error, err_text(&err, text, sizeof text));
    if (!r->tsv)
        r->tsv = strdup("");
    return r->tsv != NULL;
}

/* One message of the row; what rpc_send says. */
static bool send_part(struct reading *r) {
    Brr__V1__JobEvents out = BRR__V1__JOB_EVENTS__INIT;
    size_t n = r->len - r->at < PART_BYTES ? r->len - r->at : PART_BYTES;
    out.recording = r->row.recording;
    out.error = r->row.error;
    out.duration_s = r->row.duration_s;
    out.events = r->row.events;
    out.seizure_s = r->row.seizure_s;
    out.tsv.data = (uint8_t *)r->tsv + r->at;
    out.tsv.len = n;
    r->at += n;
    out.more = r->at < r->len;
    bool room = convert_send(r->call, &out.base);
    if (!out.more) {
        free(r->tsv);
        r->tsv = NULL;
    }
    return room;
}

static void pump(struct rpc_call *call) {
    struct reading *r = rpc_state(call);
    bool room = r != NULL;
    while (room && (r->tsv || next_row(r)))
        room = send_part(r);
    if (room)
        rpc_finish(call, 0, NULL);
}

static struct reading *open_reading(struct rpc_call *call, const struct job *job, struct err *err) {
    char path[DETECT_LIST_PATH];
    struct reading *r = calloc(1, sizeof *r);
    if (!r || !str_format(path, sizeof path, "%s/%s", job->directory, DETECT_LIST_NAME)) {
        err_set(err, ERR_EXHAUSTED, "out of memory for the events of job %s", job->id);
        free(r);
        return NULL;
    }
    r->call = call;
    str_copy(r->directory, sizeof r->directory, job->directory);
    if (!(r->list = fopen(path, "re"))) {
        if (errno == ENOENT)
            err_set(err, ERR_PRECONDITION, "job %s is %s and has no recording done yet", job->id, job_state_name(job->state));
        else
            err_errno(err, errno, "cannot open %s", path);
        free(r);
        return NULL;
    }
    return r;
}

static void events(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__JobEventsRequest *in = convert_unpack(call, &brr__v1__job_events_request__descriptor, data, len);
    const struct job *job = in ? sched_get(services_of(call)->sched, in->id) : NULL;
    struct reading *r = NULL;
    struct err err;
    if (!in)
        return;
    if (!job)
        err_set(&err, ERR_NOT_FOUND, "there is no job '%s'; `brrctl jobs` lists them", in->id);
    else if (strcmp(job->kind, "detect") != 0)
        err_set(&err, ERR_PRECONDITION, "job %s is of kind %s; only detect jobs keep events for clients", job->id, job->kind);
    else
        r = open_reading(call, job, &err);
    if (!r) {
        rpc_finish(call, err.code, &err);
        return;
    }
    rpc_set_state(call, r);
    pump(call);
}

static void end(struct rpc_call *call) {
    struct reading *r = rpc_state(call);
    if (!r)
        return;
    fclose(r->list);
    free(r->tsv);
    free(r);
}

const struct rpc_method svc_events[] = {
    {"/brr.v1.Jobs/Events", ROLE_READ, false, RPC_CONTROL_BYTES, events, NULL, pump, end},
};
const size_t svc_events_count = sizeof svc_events / sizeof *svc_events;
