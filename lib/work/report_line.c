#include "work/report_line.h"

#include "base/json.h"

/* A member of a JSON object and of the struct that it stands for. */
enum member_type { MEMBER_TEXT, MEMBER_I64, MEMBER_F64, MEMBER_BOOL };
struct member {
    const char *name;
    enum member_type type;
    size_t offset, size;
};
#define MEMBER(of, member, type)                                                                                                   \
    { #member, MEMBER_##type, offsetof(struct of, member), sizeof(((struct of *)0)->member) }

static const struct member progress_members[] = {
    MEMBER(task_progress, phase, TEXT),          MEMBER(task_progress, step, I64),
    MEMBER(task_progress, steps, I64),           MEMBER(task_progress, done, I64),
    MEMBER(task_progress, total, I64),           MEMBER(task_progress, loss, F64),
    MEMBER(task_progress, eta_s, F64),           MEMBER(task_progress, epoch, I64),
    MEMBER(task_progress, epochs, I64),          MEMBER(task_progress, validation_loss, F64),
    MEMBER(task_progress, learning_rate, F64),   MEMBER(task_progress, gradient_norm, F64),
    MEMBER(task_progress, windows_per_s, F64),   MEMBER(task_progress, data_wait_ratio, F64),
    MEMBER(task_progress, metric, F64),          MEMBER(task_progress, metric_name, TEXT),
    MEMBER(task_progress, nonfinite_steps, I64), MEMBER(task_progress, step_s, F64)};
static const struct member checkpoint_members[] = {
    MEMBER(task_checkpoint, path, TEXT),        MEMBER(task_checkpoint, sha256, TEXT), MEMBER(task_checkpoint, step, I64),
    MEMBER(task_checkpoint, epoch, I64),        MEMBER(task_checkpoint, bytes, I64),   MEMBER(task_checkpoint, metric, F64),
    MEMBER(task_checkpoint, metric_name, TEXT), MEMBER(task_checkpoint, best, BOOL),   MEMBER(task_checkpoint, last, BOOL),
    MEMBER(task_checkpoint, write_s, F64)};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const stop_names[STOP_REASONS] = {[STOP_NONE] = "",
                                                     [STOP_CANCEL] = "cancel",
                                                     [STOP_TIME_LIMIT] = "time_limit",
                                                     [STOP_SHUTDOWN] = "shutdown",
                                                     [STOP_PREEMPT] = "preempt",
                                                     [STOP_SAVE_AND_CANCEL] = "save_and_cancel",
                                                     [STOP_COST_LIMIT] = "cost_limit"};

/* ---- writing ---- */

static void put_members(struct json_writer *w, const struct member *members, size_t n, const void *from) {
    for (size_t i = 0; i < n; i++) {
        const void *at = (const char *)from + members[i].offset;
        switch (members[i].type) {
        case MEMBER_TEXT:
            json_put_str(w, members[i].name, at);
            break;
        case MEMBER_I64:
            json_put_i64(w, members[i].name, *(const int64_t *)at);
            break;
        case MEMBER_F64:
            json_put_f64(w, members[i].name, *(const double *)at);
            break;
        case MEMBER_BOOL:
            json_put_bool(w, members[i].name, *(const bool *)at);
            break;
        }
    }
}

/* The figures stand among the members; their names are listed, so that a reader finds them in order. */
static void put_progress(struct json_writer *w, const struct task_progress *p) {
    put_members(w, progress_members, COUNT(progress_members), p);
    for (int i = 0; i < TASK_MAX_FIGURES && *p->figures[i].name; i++)
        json_put_f64(w, p->figures[i].name, p->figures[i].value);
    json_begin_array(w, "figures");
    for (int i = 0; i < TASK_MAX_FIGURES && *p->figures[i].name; i++)
        json_put_str(w, NULL, p->figures[i].name);
    json_end(w, ']');
}

/* The result is the last member. */
static void put_end(struct json_writer *w, const struct task_end *end, const struct report_frame *frame) {
    JSON_MEMBERS(w, *frame, job, kind, state, reason, checkpoint);
    json_put_str(w, "stopped", stop_names[end->stopped]);
    JSON_MEMBERS(w, *end, has_checkpoint, energy_j);
    json_put_i64(w, "code", end->rc);
    json_put_i64(w, "room", end->rc ? (int64_t)end->err.room : 0);
    json_put_str(w, "message", end->rc ? end->err.message : "");
    json_put_str(w, "cause", end->rc ? end->err.cause : "");
    if (end->result)
        json_put_raw(w, "result", end->result);
    else
        json_put_null(w, "result");
}

static const char *event_of(const struct task_report *r) {
    static const char *const names[] = {[TASK_RUNNING] = "running", [TASK_PROGRESS] = "progress",     [TASK_LOG] = "info",
                                        [TASK_NOTICE] = "warn",     [TASK_CHECKPOINT] = "checkpoint", [TASK_END] = "end"};
    return r->kind == TASK_LOG ? task_level_names[r->level] : names[r->kind];
}

void report_write(struct str *out, const struct task_report *r, const struct report_frame *frame) {
    struct json_writer w = json_to(out);
    json_begin_object(&w, NULL);
    json_put_str(&w, "event", event_of(r));
    if (r->kind == TASK_PROGRESS)
        put_progress(&w, r->progress);
    else if (r->kind == TASK_CHECKPOINT)
        put_members(&w, checkpoint_members, COUNT(checkpoint_members), r->checkpoint);
    else if (r->kind == TASK_END)
        put_end(&w, r->end, frame);
    else if (r->kind != TASK_RUNNING)
        json_put_str(&w, "text", r->text);
    if (r->kind == TASK_NOTICE)
        json_put_bool(&w, "notice", true);
    json_end(&w, '}');
}

/* ---- reading ---- */

/* An absent number that may be unknown is NaN, an absent count 0. */
static void get_members(const struct json *tree, const struct member *members, size_t n, void *to) {
    for (size_t i = 0; i < n; i++) {
        void *at = (char *)to + members[i].offset;
        const struct json *value = json_get(tree, members[i].name);
        switch (members[i].type) {
        case MEMBER_TEXT:
            str_copy(at, members[i].size, json_str(value, ""));
            break;
        case MEMBER_I64:
            *(int64_t *)at = json_i64(value, 0);
            break;
        case MEMBER_F64:
            *(double *)at = json_f64(value, NAN);
            break;
        case MEMBER_BOOL:
            *(bool *)at = json_bool(value, false);
            break;
        }
    }
}

static void get_progress(const struct json *tree, struct task_progress *ret) {
    const struct json *names = json_get(tree, "figures");
    task_progress_init(ret);
    get_members(tree, progress_members, COUNT(progress_members), ret);
    for (size_t i = 0; i < json_count(names) && i < TASK_MAX_FIGURES; i++) {
        const char *name = json_str(json_at(names, i), "");
        str_copy(ret->figures[i].name, sizeof ret->figures[i].name, name);
        ret->figures[i].value = json_f64(json_get(tree, name), NAN);
    }
}

/* The text of the result as it stands in the line: the last member, and quotes within texts are escaped. */
static char *get_result(const char *line, size_t len) {
    static const char key[] = ",\"result\":{";
    const char *result = strstr(line, key);
    if (!result)
        return NULL;
    result += sizeof key - 2;
    return strndup(result, (size_t)(line + len - 1 - result)); /* without the brace of the line */
}

static void get_end(const struct json *tree, const char *line, size_t len, struct report_line *ret) {
    const char *stopped = json_str(json_get(tree, "stopped"), "");
    struct task_end *end = &ret->end;
    ret->frame = (struct report_frame){.job = json_str(json_get(tree, "job"), ""),
                                       .kind = json_str(json_get(tree, "kind"), ""),
                                       .checkpoint = json_str(json_get(tree, "checkpoint"), NULL),
                                       .state = json_str(json_get(tree, "state"), ""),
                                       .reason = json_str(json_get(tree, "reason"), "")};
    while (end->stopped < STOP_REASONS - 1 && strcmp(stopped, stop_names[end->stopped]) != 0)
        end->stopped++;
    end->has_checkpoint = json_bool(json_get(tree, "has_checkpoint"), false);
    end->energy_j = json_f64(json_get(tree, "energy_j"), NAN);
    if ((end->rc = (int)json_i64(json_get(tree, "code"), 0))) {
        err_set(&end->err, end->rc, "%s", json_str(json_get(tree, "message"), ""));
        str_copy(end->err.cause, sizeof end->err.cause, json_str(json_get(tree, "cause"), ""));
        end->err.room = (enum err_room)json_i64(json_get(tree, "room"), 0);
    }
    end->result = get_result(line, len);
}

/* False: the event is none of a task. */
static bool get_event(const struct json *tree, const char *line, size_t len, struct report_line *ret) {
    const char *event = json_str(json_get(tree, "event"), "");
    struct task_report *r = &ret->report;
    r->text = json_str(json_get(tree, "text"), "");
    r->kind = json_bool(json_get(tree, "notice"), false) ? TASK_NOTICE : TASK_LOG;
    for (r->level = 0; r->level < TASK_LEVELS; r->level++)
        if (!strcmp(event, task_level_names[r->level]))
            return true;
    r->level = TASK_INFO;
    if (!strcmp(event, "progress")) {
        r->kind = TASK_PROGRESS;
        get_progress(tree, &ret->progress);
    } else if (!strcmp(event, "checkpoint")) {
        r->kind = TASK_CHECKPOINT;
        get_members(tree, checkpoint_members, COUNT(checkpoint_members), &ret->checkpoint);
    } else if (!strcmp(event, "end")) {
        r->kind = TASK_END;
        get_end(tree, line, len, ret);
    } else {
        r->kind = TASK_RUNNING;
        return !strcmp(event, "running");
    }
    return true;
}

int report_read(const char *line, size_t len, struct report_line *ret, struct err *err) {
    int rc;
    *ret = (struct report_line){0};
    if ((rc = json_parse(line, len, "report", &ret->tree, err)))
        return rc;
    ret->report = (struct task_report){.progress = &ret->progress, .checkpoint = &ret->checkpoint, .end = &ret->end};
    if (get_event(ret->tree, line, len, ret))
        return 0;
    report_line_done(ret);
    return err_set(err, ERR_INVALID, "not the report of a task: %.200s", line);
}

void report_line_done(struct report_line *line) {
    free(line->end.result);
    json_free(line->tree);
    line->end.result = NULL;
    line->tree = NULL;
}
