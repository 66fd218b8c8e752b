#include "evaluate/evaluation_state.h"

int evaluation_start(const struct evaluation_config *config, struct evaluation **ret, struct err *err) {
    struct evaluation *e = calloc(1, sizeof *e);
    if (!e)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an evaluation");
    e->config = *config;
    int rc = evaluation_open(e, err);
    if (rc)
        evaluation_free(e);
    else
        *ret = e;
    return rc;
}

void evaluation_free(struct evaluation *e) {
    if (!e)
        return;
    flight_free(e->flight);
    loader_stop(e->loader);
    free(e->entries);
    evaluation_traces_done(e);
    score_sweep_done(&e->sweep);
    alarm_sweep_done(&e->rules);
    temperature_seconds_done(&e->seconds);
    score_alarm_report_done(&e->alarms);
    free(e);
}

int evaluation_count(const struct evaluation *e) { return e->n_traces; }
int evaluation_current(const struct evaluation *e) { return e->current; }
const struct score_sweep *evaluation_sweep(const struct evaluation *e) { return &e->sweep; }
const struct alarm_sweep *evaluation_alarm_sweep(const struct evaluation *e) { return &e->rules; }

void evaluation_recording(const struct evaluation *e, int index, struct evaluation_recording *ret) {
    const struct trace *t = &e->traces[index];
    *ret = (struct evaluation_recording){t->entry, t->index, e->views[index], t->events, t->n_events, t->alarms_s, t->n_alarms};
}

int evaluation_step(struct evaluation *e, bool *ret_done, struct evaluation_result *ret, struct err *err) {
    *ret_done = false;
    if (e->current < e->n_traces)
        return evaluation_run_windows(e, err);
    if (e->ranks > 1 && !e->collected)
        return evaluation_collect(e, err);
    if (e->rank) {
        *ret_done = true;
        return 0;
    }
    return evaluation_search(e, ret_done, ret, err);
}
