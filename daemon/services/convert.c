#include "daemon/services/convert.h"

#include "daemon/rpc/texts.h"

uint8_t *convert_pack(const ProtobufCMessage *message, size_t *ret_len, struct err *err) {
    *ret_len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(*ret_len + 1);
    if (bytes)
        texts_repair(message->descriptor, bytes, protobuf_c_message_pack(message, bytes));
    else
        err_set(err, ERR_EXHAUSTED, "out of memory for an answer of %zu bytes", *ret_len);
    return bytes;
}

bool convert_send(struct rpc_call *call, const ProtobufCMessage *message) {
    size_t len = 0;
    struct err err;
    OWNED_MEMORY uint8_t *bytes = convert_pack(message, &len, &err);
    if (bytes)
        return rpc_send(call, bytes, len);
    rpc_finish(call, &err);
    return false;
}

int convert_answer(struct rpc_call *call, const ProtobufCMessage *message) {
    convert_send(call, message);
    return rpc_finish(call, NULL);
}

/* The kind's own figures; false when out of memory. */
static bool put_figures(struct arena *arena, const struct task_progress *p, Brr__V1__Progress *m) {
    m->figures = arena_alloc(arena, TASK_MAX_FIGURES * sizeof *m->figures);
    for (int i = 0; m->figures && i < TASK_MAX_FIGURES && *p->figures[i].name; i++) {
        Brr__V1__Figure *f = m->figures[i] = arena_alloc(arena, sizeof *f);
        if (!f)
            return false;
        brr__v1__figure__init(f);
        f->name = (char *)(uintptr_t)p->figures[i].name;
        f->value = p->figures[i].value;
        m->n_figures++;
    }
    return m->figures != NULL;
}

static Brr__V1__Progress *progress_of(struct arena *arena, const struct task_progress *p) {
    Brr__V1__Progress *m = arena_alloc(arena, sizeof *m);
    if (!m)
        return NULL;
    brr__v1__progress__init(m);
    LEND_TEXTS(*m, *p, phase, metric_name);
    COPY_MEMBERS(*m, *p, step, steps, epoch, epochs, loss, learning_rate, gradient_norm, data_wait_ratio);
    COPY_MEMBERS(*m, *p, eta_s, metric, done, total, nonfinite_steps, validation_loss);
    m->windows_per_second = p->windows_per_s;
    return put_figures(arena, p, m) ? m : NULL;
}

Brr__V1__JobState convert_job_state(enum job_state state) {
    static const Brr__V1__JobState numbers[JOB_STATE_COUNT] = {
        [JOB_QUEUED] = BRR__V1__JOB_STATE__JOB_STATE_QUEUED,           [JOB_PREPARING] = BRR__V1__JOB_STATE__JOB_STATE_PREPARING,
        [JOB_RUNNING] = BRR__V1__JOB_STATE__JOB_STATE_RUNNING,         [JOB_SUCCEEDED] = BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED,
        [JOB_FAILED] = BRR__V1__JOB_STATE__JOB_STATE_FAILED,           [JOB_CANCELLED] = BRR__V1__JOB_STATE__JOB_STATE_CANCELLED,
        [JOB_INTERRUPTED] = BRR__V1__JOB_STATE__JOB_STATE_INTERRUPTED,
    };
    return numbers[state];
}

Brr__V1__Job *convert_job(struct arena *arena, const struct job *job, int queue_position) {
    Brr__V1__Job *m = arena_alloc(arena, sizeof *m);
    if (!m)
        return NULL;
    brr__v1__job__init(m);
    LEND_TEXTS(*m, *job, id, kind, name, owner, reason, directory, device, versions);
    m->state = convert_job_state(job->state);
    m->priority = (int32_t)job->priority;
    m->queue_position = queue_position;
    COPY_MEMBERS(*m, *job, created_ms, started_ms, finished_ms, attempts, restarts, crashes);
    COPY_MEMBERS(*m, *job, retry_ms, run_ms, device_ms, memory_bytes);
    m->checkpoint = (char *)(uintptr_t)job_learned(job);
    m->last_checkpoint = (char *)(uintptr_t)job->last;
    m->result_json = job->result ? job->result : m->result_json;
    m->device_name = (char *)(uintptr_t)(*job->on ? job->on : job->wanted);
    m->energy_joules = isnan(job->energy_j) ? 0 : job->energy_j;
    m->progress = progress_of(arena, &job->progress);
    return m->progress ? m : NULL;
}

static Brr__V1__AlarmAuthor *describe_author(const struct alarm_author *author, Brr__V1__AlarmAuthor *ret) {
    brr__v1__alarm_author__init(ret);
    LEND_TEXTS(*ret, *author, by, person, via);
    ret->at_ms = author->at_ms;
    return ret;
}

void convert_alarm(const struct alarm *a, const struct alarms_now *now, struct alarm_message *ret) {
    static const char *const sounds[] = {[ALARM_QUIET] = "none", [ALARM_LOW] = "low", [ALARM_HIGH] = "high"};
    Brr__V1__BedAlarm *out = &ret->alarm;
    brr__v1__bed_alarm__init(out);
    LEND_TEXTS(*out, *a, id, bed, principal, model, why, note, where);
    out->kind = convert_text(alarm_kind_name(a->kind));
    out->session_id = convert_text(a->session);
    COPY_MEMBERS(*out, *a, live, test, on_ms, off_ms, blind, cut, value, status, step);
    out->silent_until_ms = alarm_is_silent(a, now->boot_ms) ? a->silent_ms : 0;
    out->length_ms = alarm_length_ms(a, now->boot_ms);
    out->untold = a->due_boot_ms != 0;
    out->mark = convert_text(alarm_mark_name(a->mark));
    out->open = alarm_is_open(a);
    out->sound = convert_text(sounds[alarm_sound(a, now->boot_ms)]);
    alarm_again_text(a, ret->again);
    out->again = ret->again;
    out->start_s = a->kind == ALARM_SEIZURE ? a->start_s : NAN;
    if (a->answered.at_ms)
        out->answered = describe_author(&a->answered, &ret->answered);
    if (a->noted.at_ms)
        out->noted = describe_author(&a->noted, &ret->noted);
    if (out->silent_until_ms)
        out->silenced = describe_author(&a->silenced, &ret->silenced);
}
