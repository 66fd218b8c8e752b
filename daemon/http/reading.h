/* reading: answers that need files: the journal of a stream, the folder of a job. A thread of its own reads and the caller waits a
 * few seconds at most, so that a volume that does not answer costs only these pages, and no stop of the server waits for it.
 * Bounded: READINGS at a time, and READINGS_OF_RECORDINGS of TRACES beside them. Any thread. */
#ifndef BRR_DAEMON_HTTP_READING_H
#define BRR_DAEMON_HTTP_READING_H
#include "base/err.h"
#include "daemon/page/page.h"

enum { READINGS = 8, READINGS_OF_RECORDINGS = 4, READING_S = 3, READING_PATH = 600 };

enum reading_what { READING_STREAM, READING_JOB, READING_JOBS, READING_PICTURE, READING_RECORDING, READING_TRACES };
/* view is copied, with its status and its recordings shared. path: of the URL, behind "/streams/" or "/jobs/"; JOBS: "ID,ID". */
struct reading_request {
    enum reading_what what;
    const struct page_view *view;
    const char *path;
    struct traces_query traces; /* TRACES: of the recording whose id path is */
};
struct reading;
/* 0; NOT_FOUND; INVALID and errors of a recording's file; EXHAUSTED: too many are at work; UNAVAILABLE: the volume does not answer.
 * *ret is to be freed with reading_done. */
int reading_run(const struct reading_request *request, struct reading **ret, struct err *err);
const struct html *reading_page(const struct reading *r); /* a page, the picture (image/svg+xml), or traces */
void reading_done(struct reading *r);

#endif
