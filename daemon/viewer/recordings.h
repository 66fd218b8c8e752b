/* recordings: the recordings that callers asked to look at (Admin.View), each under an id: where it lies, who asked, and what is
 * marked in it. Bounded: RECORDINGS of them; the oldest goes. The file is opened when its samples are asked for, and kept open.
 * Thread-safe; only the functions that say so wait for the volume of a recording. */
#pragma once

#include "daemon/viewer/traces.h"

enum { RECORDINGS = 64, RECORDINGS_ID_SIZE = 33, RECORDINGS_MARKS = 2000, RECORDINGS_P_BYTES = 1 << 17, RECORDINGS_TEXT = 64 };
struct correction_place;

struct recordings;
struct recording_entry;

struct recording_mark {
    double onset_s, end_s; /* of file time */
    char text[RECORDINGS_TEXT];
};
/* What is to be shown; copied. */
struct recording_request {
    const char *id, *path, *principal; /* id: one that cannot be guessed */
    const struct recording_mark *marks;
    int n_marks;
    const uint8_t *p; /* the probability of each p_step_s from 0 on, in two-hundredths; above 200: none */
    size_t n_p;
    double p_step_s;
    const char *answers, *relative; /* folder for answers of readers, and the path of the recording below it; NULL: for none */
    double at_s;                    /* where the page opens; below 0: at the first mark */
};

struct recordings *recordings_new(void);                     /* NULL when out of memory */
struct recordings *recordings_share(struct recordings *all); /* for one more owner, who calls recordings_free; NULL is fine */
void recordings_free(struct recordings *all);                /* NULL is fine; the last owner's; entries that are held go on */
/* INVALID: more marks or values than fit. Closes the file of the oldest, so it waits for that volume. */
int recordings_add(struct recordings *all, const struct recording_request *request, struct err *err);
/* The recording of this id, if this principal asked for it; NULL: whoever did. To be given back with recording_drop. NULL: there is
 * none. */
struct recording_entry *recordings_find(struct recordings *all, const char *principal, const char *id);
void recording_drop(struct recording_entry *r);              /* NULL is fine; the last one closes the file */
const char *recording_name(const struct recording_entry *r); /* of its file */
double recording_at(const struct recording_entry *r);
/* Names the place of its answers, borrowed; false if they cannot be saved. */
bool recording_answers(const struct recording_entry *r, struct correction_place *ret);

/* Samples for the viewer, as traces_of_stream: all voltages of one rate, means of several samples where that is above 512 Hz, each
 * channel without its mean over the first ten seconds. Waits for the volume. Errors of the file, INVALID of the query; CANCELLED
 * when *gone becomes true: nobody waits for the answer any more. gone may be NULL. */
int recording_traces(struct recording_entry *r, const struct traces_query *query, const atomic_bool *gone, struct str *out,
                     struct err *err);
