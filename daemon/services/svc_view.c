/* Admin.View: a recording for the viewer of the pages (viewer/recordings.h). */

#include "brr/v1/admin.pb-c.h"
#include "daemon/live/resume_token.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"
#include "daemon/viewer/recordings.h"
#include "formats/eegfile.h"

struct view_call {
    struct offload work; /* first */
    struct places places;
    struct recordings *recordings;
    const char *recording; /* in the request */
    char path[4096], principal[256], id[RECORDINGS_ID_SIZE];
    char answers[4096], relative[4096]; /* "" = for no answers */
    struct recording_request request;   /* its marks and values are this call's */
};

/* Length of a folder's path in front of the path of a file below it; 0: it is not below. */
static size_t length_above(const char *path, const char *folder) {
    const size_t n = strlen(folder);
    return n > 1 && !strncmp(path, folder, n) && path[n] == '/' ? n : 0;
}

/* The folder that the caller names, or the daemon's own, where a recording keeps its path below paths.data; others have their whole
 * path below "outside". Recordings in that folder itself are links to others, which have the answers. */
static int find_answers(struct view_call *v, struct err *err) {
    char data[4096];
    int rc;
    if (*v->relative)
        return 0;
    if ((rc = fsio_absolute(data, sizeof data, v->places.data_dir, err)))
        return rc;
    const size_t above = length_above(v->path, data);
    if (length_above(v->path, v->answers))
        v->answers[0] = '\0';
    else if (!str_format(v->relative, sizeof v->relative, "%s%s", above ? "" : "outside/", v->path + above + 1))
        return err_set(err, ERR_RANGE, "the path of %.200s is too long", v->path);
    return 0;
}

/* On the pool: its volume may not answer, nor that of the recording that makes room for it. */
static void find_recording(struct offload *work) {
    struct view_call *v = (struct view_call *)work;
    struct eegfile *file = NULL;
    if (places_file(&v->places, "recording", v->recording, v->path, &work->err) || eegfile_open_header(v->path, &file, &work->err))
        return;
    eegfile_close(file);
    if (find_answers(v, &work->err))
        return;
    v->request.answers = *v->answers ? v->answers : NULL;
    COPY_MEMBERS(v->request, *v, relative, path, principal, id);
    if (!resume_token_random(v->id, &work->err))
        recordings_add(v->recordings, &v->request, &work->err);
}

static void recording_found(struct offload *work) {
    struct view_call *v = (struct view_call *)work;
    Brr__V1__PageResponse out = BRR__V1__PAGE_RESPONSE__INIT;
    char url[512], path[64];
    struct err err;
    if (!offload_good(work))
        return;
    struct services *s = services_of(work->call);
    str_format(path, sizeof path, "/recordings/%s", v->id);
    out.url = url;
    if (s->page_url(s, path, url, sizeof url, &err))
        rpc_finish(work->call, &err);
    else
        convert_answer(work->call, &out.base);
}

static int take_marks(struct view_call *v, const Brr__V1__ViewRequest *in, struct err *err) {
    struct recording_mark *marks = arena_alloc(v->work.arena, (in->n_marks + 1) * sizeof *marks);
    v->request = (struct recording_request){
        .marks = marks, .p = in->probabilities.data, .n_p = in->probabilities.len, .p_step_s = in->step_s};
    if (!marks)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a recording");
    for (size_t i = 0; i < in->n_marks; i++) {
        const Brr__V1__ViewMark *m = in->marks[i];
        if (!(fabs(m->onset_s) < 1e9) || !(fabs(m->end_s) < 1e9))
            return err_set(err, ERR_INVALID, "marks: expected times in seconds of the recording");
        marks[i] = (struct recording_mark){.onset_s = m->onset_s, .end_s = m->end_s};
        str_copy(marks[i].text, sizeof marks[i].text, m->text);
    }
    v->request.n_marks = (int)in->n_marks;
    return 0;
}

/* A review is a folder that the daemon writes to, so that it takes a caller who may name any path. */
static int take_answers(struct view_call *v, const struct services *s, const Brr__V1__ViewRequest *in, struct err *err) {
    char own[4096];
    v->request.at_s = in->at_s;
    if (*in->review && !v->places.local_paths)
        return err_set(err, ERR_DENIED,
                       "review: answers are saved in %s; to name another folder, ask as the daemon's user with local_paths: true",
                       s->corrections ? s->corrections : "paths.results/corrections");
    if (*in->review &&
        (*in->review != '/' || !fsio_is_below(in->review_path) || !str_copy(v->relative, sizeof v->relative, in->review_path)))
        return err_set(err, ERR_INVALID,
                       "review: expected an absolute folder, and in review_path the path of a recording below it");
    int rc = s->corrections || *in->review ? 0 : fsio_join(own, sizeof own, v->places.results_dir, "corrections", err);
    return rc ? rc
              : fsio_absolute(v->answers, sizeof v->answers,
                              *in->review      ? in->review
                              : s->corrections ? s->corrections
                                               : own,
                              err);
}

static int view(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__ViewRequest *in = message;
    struct services *s = services_of(call);
    int rc;
    if (!s->page_url)
        return err_set(err, ERR_UNAVAILABLE, "the daemon has no pages");
    if (!rpc_caller(call)->has_token &&
        strcmp(rpc_caller(call)->listener, "unix") != 0) /* the address may hold a key, as of Page */
        return err_set(err, ERR_DENIED, "without a token recordings are shown to callers over the unix socket alone");
    if (in->n_marks > RECORDINGS_MARKS)
        return err_set(err, ERR_INVALID, "marks: at most %d", RECORDINGS_MARKS);
    struct view_call *v = offload_new(call, OFFLOAD_FILES, sizeof *v, NULL, err);
    if (!v)
        return err->code;
    COPY_MEMBERS(*v, *s, places, recordings);
    str_copy(v->principal, sizeof v->principal, rpc_caller(call)->name);
    if ((rc = take_marks(v, in, err)) || (rc = take_answers(v, s, in, err)))
        return rc;
    if (!*in->recording || strlen(in->recording) >= sizeof v->path)
        return err_set(err, ERR_INVALID, "recording: expected a path of less than %zu bytes", sizeof v->path);
    v->recording = in->recording;
    offload_start(&v->work, find_recording, recording_found);
    return 0;
}

const struct rpc_method svc_view[] = {
    {RPC_METHOD("/brr.v1.Admin/View", ROLE_SUBMIT, brr__v1__view_request, view), .end = offload_end},
    {.path = NULL},
};
