#include "work/report_line.h"

/* Members as they are called in the line. */
#define PROGRESS_MEMBERS                                                                                                           \
    phase, step, steps, done, total, loss, eta_s, epoch, epochs, validation_loss, learning_rate, gradient_norm, windows_per_s,     \
        data_wait_ratio, metric, metric_name, nonfinite_steps, step_s
#define CHECKPOINT_MEMBERS path, sha256, step, epoch, bytes, metric, metric_name, best, last, write_s

static const char *const stop_names[STOP_REASONS] = {[STOP_NONE] = "",
                                                     [STOP_CANCEL] = "cancel",
                                                     [STOP_TIME_LIMIT] = "time_limit",
                                                     [STOP_SHUTDOWN] = "shutdown",
                                                     [STOP_PREEMPT] = "preempt",
                                                     [STOP_SAVE_AND_CANCEL] = "save_and_cancel",
                                                     [STOP_COST_LIMIT] = "cost_limit"};

/* ---- writing ---- */

/* The figures stand among the members; their names are listed, so that a reader finds them in order. */
static void put_progress(struct json_writer *w, const struct task_progress *p) {
    JSON_MEMBERS(w, *p, PROGRESS_MEMBERS);
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
    struct json_writer w = json_object_to(out);
    json_put_str(&w, "event", event_of(r));
    if (r->kind == TASK_PROGRESS)
        put_progress(&w, r->progress);
    else if (r->kind == TASK_CHECKPOINT)
        JSON_MEMBERS(&w, *r->checkpoint, CHECKPOINT_MEMBERS);
    else if (r->kind == TASK_END)
        put_end(&w, r->end, frame);
    else if (r->kind != TASK_RUNNING)
        json_put_str(&w, "text", r->text);
    if (r->kind == TASK_NOTICE)
        json_put_bool(&w, "notice", true);
    json_end(&w, '}');
}

/* ---- reading ---- */

static void get_progress(const struct json *tree, struct task_progress *ret) {
    const struct json *names = json_get(tree, "figures");
    task_progress_init(ret);
    JSON_TAKE(tree, *ret, PROGRESS_MEMBERS);
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
    JSON_TAKE(tree, *end, has_checkpoint, energy_j);
    if ((end->rc = (int)json_i64(json_get(tree, "code"), 0))) {
        err_set(&end->err, end->rc, "%s", json_str(json_get(tree, "message"), ""));
        JSON_TAKE(tree, end->err, cause);
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
        JSON_TAKE(tree, ret->checkpoint, CHECKPOINT_MEMBERS);
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
