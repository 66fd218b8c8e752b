/* score_rejecter: chooses a rejecter of events (detect/rejecter.h) on labelled recordings, from their probability traces. It is
 * fitted to the events of a sensitive pair of thresholds, and judged by leaving one patient out at a time: the events of each
 * patient pass a rejecter that was fitted to those of the others. It is used only if so the event F1, pooled over all patients,
 * exceeds that of the usual pair without one, or equals it with fewer false alarms. One thread per object. Definitions:
 * docs/scores.md. */
#pragma once
#include "detect/rejecter.h"
#include "score/score_sweep.h"

struct rejecter_search {
    const struct score_trace *traces; /* borrowed until the search is done, as everything here */
    int n;
    const struct events_config *base; /* all settings except on, off and rejecter */
    score_load_fn *load;              /* NULL: each trace holds its p */
    void *ctx;
    const struct score_sweep *sweep; /* complete, of the same traces */
    double target_fa_per_24h;        /* as of score_sweep_best, which chooses the usual pair */
};

struct rejecter_progress;
struct score_rejecter {
    bool used;
    char why[200];                  /* why it is not used; "" if it is */
    struct event_rejecter rejecter; /* fitted to all patients, if used */
    double on, off;                 /* the sensitive pair; 0: no pair finds a seizure */
    double usual_on, usual_off;
    int64_t seizures, false_events; /* events of the sensitive pair, by what each alone counts in the event score */
    int64_t patients;               /* patients with events, each left out once */
    struct score usual, left_out;   /* pooled event scores; left_out is all zero if the patients could not be left out */
    struct rejecter_progress *progress;
};
int score_rejecter_begin(const struct rejecter_search *search, struct score_rejecter *ret, struct err *err);
/* Finds the events of one trace, or leaves one patient out; *ret_done: the result is complete. */
int score_rejecter_step(struct score_rejecter *r, bool *ret_done, struct err *err);
void score_rejecter_done(struct score_rejecter *r);
/* An object with the members used, why, on, off, true_events, false_events, patients; usual and left_out (counts, F1, false alarms)
 * where there are these scores; and rejecter, if it is used. */
void score_rejecter_json(const struct score_rejecter *r, struct json_writer *w, const char *key);
