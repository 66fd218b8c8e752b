/* correction: an answer of a reader about a recording, saved in the label file of that recording below a folder of answers, beside
 * a link to the recording, so that the folder is a data source. The recording and its own labels stay as they are. A process that
 * ends within a save leaves the old label file or the new one. Any thread, any number of processes. */
#pragma once
#include "eeg/answers.h"
#include "store/digest.h"

/* The recording and its place. Borrowed. */
struct correction_place {
    const char *eeg;      /* absolute path of the recording */
    const char *folder;   /* of the answers; made where it is missing */
    const char *relative; /* path of the recording's link below it */
    bool force;           /* replaces a label file that brrd did not write or that was changed since */
};
/* The label file. RANGE: the path is too long. */
int correction_path(const struct correction_place *place, char *ret, size_t size, struct err *err);

enum correction_verb {
    CORRECTION_ACCEPT, /* a seizure; the parts of the event that it leaves are background */
    CORRECTION_REJECT, /* background */
    CORRECTION_UNSURE,
    CORRECTION_ADD,      /* a seizure where no event was */
    CORRECTION_DONE,     /* background wherever there is neither an answer nor a labelled seizure */
    CORRECTION_WITHDRAW, /* the answer from onset to end goes */
    CORRECTION_VERBS
};
/* "accept", "reject", "unsure", "add", "done", "withdraw"; false: there is no such verb. */
extern const char *const correction_verbs[CORRECTION_VERBS];
bool correction_verb_find(const char *name, enum correction_verb *ret);

struct correction {
    enum correction_verb verb;
    struct answer answer; /* its type counts with ACCEPT and ADD; "" is "sz" */
    bool has_event;       /* the event that is answered */
    double event_onset_s, event_end_s;
    bool replace; /* in place of the answers that it overlaps */
};
/* State of a label file, which changes with each save; "" where there is none. */
typedef char correction_revision[DIGEST_HEX_SIZE];

/* Reads the answers. ret_revision may be NULL. Call answers_done after success. */
int correction_read(const struct correction_place *place, struct answers *ret, correction_revision ret_revision, struct err *err);
/* Saves a correction. seen: the revision that the reader saw, NULL = any. *ret has all answers after success, for answers_done.
 * ABORTED: the label file is of another revision; EXISTS: without `replace` an answer that is not background is overlapped, and
 * named; the label file is not brrd's, or the link beside it is another recording; INVALID, as answers_put; NOT_FOUND: no such
 * answer to withdraw; UNAVAILABLE: another program keeps the folder locked; errors of the recording, of its labels and of the
 * volume. */
int correction_save(const struct correction_place *place, const struct correction *c, const char *seen, struct answers *ret,
                    correction_revision ret_revision, struct err *err);
