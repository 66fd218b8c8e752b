/* Jobs as plain values over calls. */

#include "brr/v1/jobs.pb-c.h"
#include "client/message.h"

const char *brr_job_state_name(int state) {
    static const char *const names[] = {"unknown",   "queued", "preparing", "running",    "checkpointing",
                                        "succeeded", "failed", "cancelled", "interrupted"};
    return state >= 0 && state < (int)(sizeof names / sizeof *names) ? names[state] : names[0];
}

static void fill(struct brr_job *ret, const Brr__V1__Job *job) {
    const Brr__V1__Progress *p = job->progress;
    *ret = (struct brr_job){.state = (int)job->state, .loss = NAN, .eta_s = NAN};
    COPY_TEXTS(*ret, *job, id, kind, name, reason, checkpoint);
    ret->final = ret->state >= BRR_JOB_SUCCEEDED;
    if (!p)
        return;
    str_copy(ret->phase, sizeof ret->phase, p->phase);
    COPY_MEMBERS(*ret, *p, step, steps, loss, eta_s);
}

int brr_job_submit(brr_client *client, const struct brr_job_file *file, struct brr_job *ret, struct brr_error *err) {
    static const struct message_call call = {"/brr.v1.Jobs/Submit", &brr__v1__submit_response__descriptor, 0};
    Brr__V1__JobFile f = BRR__V1__JOB_FILE__INIT;
    Brr__V1__SubmitRequest in = BRR__V1__SUBMIT_REQUEST__INIT;
    ProtobufCMessage *out = NULL;
    f.yaml = message_text(file->yaml);
    f.name = message_text(file->name);
    f.overrides = (char **)(uintptr_t)file->overrides;
    f.n_overrides = file->n_overrides;
    in.file = &f;
    in.request_id = message_text(file->request_id);
    int rc = message_ask(client, &call, &in.base, &out, err);
    if (rc)
        return rc;
    const Brr__V1__Job *job = ((const Brr__V1__SubmitResponse *)out)->job;
    if (job)
        fill(ret, job);
    protobuf_c_message_free_unpacked(out, NULL);
    return job ? 0 : message_garbled(call.method, err);
}

int brr_job_get(brr_client *client, const char *id, struct brr_job *ret, struct brr_error *err) {
    static const struct message_call call = {"/brr.v1.Jobs/Get", &brr__v1__job__descriptor, 0};
    Brr__V1__GetJobRequest in = BRR__V1__GET_JOB_REQUEST__INIT;
    ProtobufCMessage *out = NULL;
    in.id = message_text(id);
    int rc = message_ask(client, &call, &in.base, &out, err);
    if (rc)
        return rc;
    fill(ret, (const Brr__V1__Job *)out);
    protobuf_c_message_free_unpacked(out, NULL);
    return 0;
}

int brr_job_watch(brr_client *client, const char *id, brr_rpc **ret, struct brr_error *err) {
    Brr__V1__WatchJobRequest in = BRR__V1__WATCH_JOB_REQUEST__INIT;
    in.id = message_text(id);
    return message_follow(client, "/brr.v1.Jobs/Watch", &in.base, ret, err);
}

int brr_job_next(brr_rpc *watch, int64_t timeout_ms, struct brr_job *ret, struct brr_error *err) {
    const void *data;
    size_t len;
    int rc = brr_rpc_next(watch, timeout_ms, &data, &len, err);
    if (rc)
        return rc;
    Brr__V1__JobUpdate *u = brr__v1__job_update__unpack(NULL, len, data);
    if (!u || !u->job) {
        brr__v1__job_update__free_unpacked(u, NULL);
        return message_garbled("/brr.v1.Jobs/Watch", err);
    }
    fill(ret, u->job);
    ret->final = u->final;
    brr__v1__job_update__free_unpacked(u, NULL);
    return 0;
}

int brr_job_logs(brr_client *client, const char *id, int follow, brr_rpc **ret, struct brr_error *err) {
    Brr__V1__JobLogsRequest in = BRR__V1__JOB_LOGS_REQUEST__INIT;
    in.id = message_text(id);
    in.follow = follow != 0;
    return message_follow(client, "/brr.v1.Jobs/Logs", &in.base, ret, err);
}
