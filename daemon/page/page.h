/* page: the web pages, each written from a status (status/status.h) for one reader. Pages that show one stream or one job also read
 * files: those of the journal and of the job, and may wait for their volume. Any thread; nothing of the loop is touched. */
#pragma once
#include "daemon/page/html.h"
#include "daemon/status/status.h"
#include "daemon/viewer/recordings.h"

/* Who looks, and at what. Everything is borrowed. */
struct page_view {
    const struct status *status;
    bool all;                       /* sees the beds and jobs of all callers */
    const char *principal;          /* else the jobs of this one, and the beds of token_sees_bed */
    const char *names;              /* of beds, for token_names_match; "" or NULL: any */
    bool answers;                   /* answers alarms of the beds that it sees, if their names match `names` */
    bool corrects;                  /* answers events of recordings */
    bool wall;                      /* /streams?wall: names, states and times for a screen on a wall */
    const char *sort;               /* /jobs?sort=f1: by this column, with "-" before it from its end; NULL: not */
    const char *person;             /* whom a proxy has signed in; NULL: who answers says so in the form */
    bool signed_in;                 /* by a token, which can be forgotten */
    bool ready;                     /* /readyz */
    const char *readiness;          /* its line */
    const char *journal, *database; /* files */
    struct recordings *recordings;
};
bool page_sees_bed(const struct page_view *v, const char *principal, const char *bed);
bool page_sees(const struct page_view *v, const struct status_stream *s);
/* The same of a job; owner: "" for one of an earlier version, which all see. */
bool page_sees_job(const struct page_view *v, const char *owner);
bool page_sees_alarm(const struct page_view *v, const struct alarm *a);
/* True if the reader may answer alarms of this bed, which this principal streams. */
bool page_answers(const struct page_view *v, const char *principal, const char *bed);
/* The stream of this id, if the reader may see it. */
const struct status_stream *page_find_stream(const struct page_view *v, const char *id);
/* Of the streams that the reader sees, in their order: changes when one comes, goes, changes its mood, or when its alarm is
 * answered. */
uint64_t page_order(const struct page_view *v);
uint64_t page_alarms_order(const struct page_view *v); /* the same of /alarms */

void page_overview(struct html *h, const struct page_view *v);
void page_alarms(struct html *h, const struct page_view *v);
void page_streams(struct html *h, const struct page_view *v);
void page_jobs(struct html *h, const struct page_view *v);
void page_models(struct html *h, const struct page_view *v);
/* False: there is no such stream or job, and nothing was written. They read files. Of a stream that has ended, and of a test alarm,
 * it is what the register and the journal have. */
bool page_stream(struct html *h, const struct page_view *v, const char *id);
bool page_job(struct html *h, const struct page_view *v, const char *id);
/* Jobs side by side; ids: "ID,ID". False: none of them is there. It reads files. */
bool page_compare(struct html *h, const struct page_view *v, const char *ids);
bool page_recording(struct html *h, const struct page_view *v, const char *id); /* it reads none */
/* The form that asks for a token. next: the path to go on to; why: what was wrong with the last one, or NULL. */
void page_login(struct html *h, const char *next, const char *why);
/* What went wrong in plain words; v may be NULL. */
void page_error(struct html *h, const struct page_view *v, const char *title, const char *text);

/* What has changed for this reader since `before` (NULL: everything is new), as one server-sent event. path: of the page. */
void page_event(struct str *out, const struct page_view *before, const struct page_view *v, const char *path);

/* A file that pages name. */
struct page_asset {
    const char *path; /* "/assets/page.css" */
    const char *type, *digest;
    const unsigned char *data;
    size_t len;
};
const struct page_asset *page_asset_find(const char *path); /* NULL: there is none */
