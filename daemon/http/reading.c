#include "daemon/http/reading.h"

#include "daemon/page/job_files.h"
#include "trust/token.h"

struct reading {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_int references; /* the caller's and the thread's */
    bool done;
    atomic_bool gone; /* the caller waits no more */
    enum reading_what what;
    struct page_view view;
    struct traces_query traces;
    struct correction_form form;
    bool has_form;
    char path[READING_PATH], principal[400], person[64], names[TOKEN_NAMES_SIZE], readiness[400], journal[4096], database[4096];
    struct html page;
    int rc;
    struct err err;
};

/* Threads of all servers: those for pages, and those that look into recordings, whose volumes no page of a stream waits for. */
static atomic_int at_work[2];
static atomic_int *counter_of(enum reading_what what) { return &at_work[what >= READING_TRACES]; }

void reading_done(struct reading *r) {
    if (!r || atomic_fetch_sub(&r->references, 1) > 1)
        return;
    html_done(&r->page);
    status_drop(r->view.status);
    recordings_free(r->view.recordings);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

const struct html *reading_page(const struct reading *r) { return &r->page; }

static int look_into_recording(struct reading *r) {
    struct recording_entry *recording = recordings_find(r->view.recordings, r->view.all ? NULL : r->principal, r->path);
    if (!recording)
        return err_set(&r->err, ERR_NOT_FOUND, "there is no recording of this id; brrctl view gives it another one");
    int rc = r->what == READING_ANSWERS  ? corrections_answer(recording, r->has_form ? &r->form : NULL, &r->page.out, &r->err)
             : r->what == READING_EXPORT ? corrections_export(recording, &r->page.out, &r->err)
                                         : recording_traces(recording, &r->traces, &r->gone, &r->page.out, &r->err);
    recording_drop(recording);
    return rc;
}

static int read_it(struct reading *r) {
    bool found = false;
    switch (r->what) {
    case READING_STREAM:
        found = page_stream(&r->page, &r->view, r->path);
        break;
    case READING_JOB:
        found = page_job(&r->page, &r->view, r->path);
        break;
    case READING_JOBS:
        found = page_compare(&r->page, &r->view, r->path);
        break;
    case READING_PICTURE:
        found = job_picture(&r->page, &r->view, r->path);
        break;
    case READING_RECORDING:
        found = page_recording(&r->page, &r->view, r->path);
        break;
    case READING_TRACES:
    case READING_ANSWERS:
    case READING_EXPORT:
        return look_into_recording(r);
    }
    return found ? 0 : err_set(&r->err, ERR_NOT_FOUND, "there is no such page");
}

static void *reading_work(void *ctx) {
    struct reading *r = ctx;
    int rc = read_it(r);
    pthread_mutex_lock(&r->lock);
    r->rc = rc;
    r->done = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    atomic_fetch_sub(counter_of(r->what), 1);
    reading_done(r);
    return NULL;
}

static struct reading *reading_new(const struct reading_request *q) {
    struct reading *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    pthread_mutex_init(&r->lock, NULL);
    clock_cond_init(&r->changed);
    atomic_init(&r->references, 2);
    r->what = q->what;
    r->view = *q->view;
    r->traces = q->traces;
    r->has_form = q->form;
    if (q->form)
        r->form = *q->form;
    status_share(q->view->status);
    recordings_share(q->view->recordings);
    str_copy(r->path, sizeof r->path, q->path);
    COPY_TEXTS(*r, *q->view, principal, readiness, journal, database);
    r->view.principal = r->principal;
    if (q->view->person) {
        str_copy(r->person, sizeof r->person, q->view->person);
        r->view.person = r->person;
    }
    if (q->view->names) {
        str_copy(r->names, sizeof r->names, q->view->names);
        r->view.names = r->names;
    }
    r->view.readiness = r->readiness;
    r->view.sort = NULL;
    COPY_MEMBERS(r->view, *r, journal, database);
    r->page = html_of();
    return r;
}

static const char *late_text(const struct reading *r) {
    return r->what == READING_TRACES
               ? "the samples of this span could not be read within %d s; show a shorter span, or try again later"
           : r->has_form ? "the volume does not answer within %d s, so that the answer may be saved later or not at all; look again"
                         : "the volume with these files does not answer within %d s; try again later";
}

/* Waits for the thread, and takes what it found. */
static int await(struct reading *r, struct reading **ret, struct err *err) {
    const struct timespec until = clock_after_ms(READING_S * 1000);
    bool late = false;
    pthread_mutex_lock(&r->lock);
    while (!r->done && !late)
        late = pthread_cond_timedwait(&r->changed, &r->lock, &until) != 0;
    const bool done = r->done;
    pthread_mutex_unlock(&r->lock);
    if (done && !r->rc) {
        *ret = r;
        return 0;
    }
    int rc = done ? err_set(err, r->rc, "%s", r->err.message) : err_set(err, ERR_UNAVAILABLE, late_text(r), READING_S);
    atomic_store(&r->gone, true);
    reading_done(r);
    return rc;
}

int reading_run(const struct reading_request *request, struct reading **ret, struct err *err) {
    pthread_attr_t detached;
    pthread_t thread;
    atomic_int *counter = counter_of(request->what);
    const int most = request->what >= READING_TRACES ? READINGS_OF_RECORDINGS : READINGS;
    if (atomic_fetch_add(counter, 1) >= most) {
        atomic_fetch_sub(counter, 1);
        return err_set(err, ERR_EXHAUSTED, "%d pages wait for files already; try again later", most);
    }
    struct reading *r = reading_new(request);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int failed = r ? pthread_create(&thread, &detached, reading_work, r) : -1;
    pthread_attr_destroy(&detached);
    if (!failed)
        return await(r, ret, err);
    atomic_fetch_sub(counter, 1);
    if (r) {
        reading_done(r);
        reading_done(r);
    }
    return err_set(err, ERR_EXHAUSTED, "out of memory for a page; try again later");
}
