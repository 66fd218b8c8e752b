/* reading: answers that need files: the journal of a stream, the folder of a job. A thread of its own reads and the caller waits a
 * few seconds at most, so that a volume that does not answer costs only these pages, and no stop of the server waits for it.
 * Bounded: READINGS at a time, and READINGS_OF_RECORDINGS of those of a recording's volume beside them. Any thread. */
#pragma once
#include "daemon/page/page.h"
#include "daemon/viewer/corrections.h"

enum { READINGS = 8, READINGS_OF_RECORDINGS = 4, READING_S = 3, READING_PATH = 600 };

/* From TRACES on: of the volume of a recording. */
enum reading_what {
    READING_STREAM,
    READING_JOB,
    READING_JOBS,
    READING_PICTURE,
    READING_RECORDING,
    READING_TRACES,
    READING_ANSWERS, /* of its readers, after one more if there is a form */
    READING_EXPORT
};
/* view is copied, with its status and its recordings shared. path: of the URL, behind "/streams/" or "/jobs/"; JOBS: "ID,ID". */
struct reading_request {
    enum reading_what what;
    const struct page_view *view;
    const char *path;
    struct traces_query traces;         /* TRACES: of the recording whose id path is */
    const struct correction_form *form; /* ANSWERS: copied; NULL: only read them */
};
struct reading;
/* 0; NOT_FOUND; INVALID and errors of a recording's file; EXHAUSTED: too many are at work; UNAVAILABLE: the volume does not answer.
 * *ret is to be freed with reading_done. */
int reading_run(const struct reading_request *request, struct reading **ret, struct err *err);
const struct html *reading_page(const struct reading *r); /* a page, the picture (image/svg+xml), traces, answers, a label file */
void reading_done(struct reading *r);                     /* NULL is fine */
OWNABLE(struct reading, reading_done)
