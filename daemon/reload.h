/* reload: a thread that reads a group of files again, on request and, if wanted, when one of them has changed, so that the loop
 * never waits for the volume of these files. It knows nothing of their contents: those come to the owner as reports. Files that
 * must not wait for one another's volumes are groups of their own. Owned by the loop thread, which calls all functions; the wake
 * callback runs on the thread of the group. */
#pragma once

#include "base/base.h"
#include "base/mailbox.h"

/* The thread looks for changes once in RELOAD_LOOK_MS; reload_stop waits RELOAD_STOP_MS for a thread that reads. */
enum { RELOAD_MAX_FILES = 2, RELOAD_LOOK_MS = 1000, RELOAD_STOP_MS = 1000 };

struct reload_file {
    const char *path;
    const char *key;           /* key of the configuration that names the file, for errors; NULL: errors name only the path */
    size_t max_bytes;          /* a longer file is an error */
    unsigned forbidden_rights; /* mode bits that the file must not have (fsio_check_mode); 0: any mode */
};

/* The result of reading a group of files once. */
struct reload_report {
    struct message message; /* private */
    int rc;                 /* 0, or the error of the first file that could not be read; the texts are NULL then */
    struct err err;
    char *texts[RELOAD_MAX_FILES]; /* in the order of the files, NUL-terminated; the owner may change them */
    size_t lengths[RELOAD_MAX_FILES];
};

struct reload;
/* Copies the description of n files; starts nothing. watch: read the files again when one of them has changed, too. */
int reload_new(const struct reload_file *files, int n, bool watch, struct reload **ret, struct err *err);
/* Reads the files on the calling thread, which waits for their volume: for the start, before reload_start. Changes are counted from
 * here on. */
int reload_now(struct reload *r, struct reload_report **ret, struct err *err);
/* Starts the thread. wake(ctx) is called after each report; it must be callable until reload_stop has returned. */
int reload_start(struct reload *r, mailbox_wake_fn *wake, void *ctx, struct err *err);
/* Reads the files again soon. Requests that come while one waits for the volume are one request. */
void reload_request(struct reload *r);
/* The next report, or NULL; free it with reload_report_free. A report that is not taken holds up further ones. */
struct reload_report *reload_take(struct reload *r);
/* Overwrites the texts, which may be secret, before it frees them. NULL is allowed. */
void reload_report_free(struct reload_report *report);
OWNABLE(struct reload_report, reload_report_free)
/* Ends the thread and frees the group; NULL and groups that were never started are allowed. A thread whose volume has not answered
 * within RELOAD_STOP_MS is left behind: it uses only memory of its own, reports nothing, and frees that memory if the volume
 * answers before the process ends. */
void reload_stop(struct reload *r);
