#include "daemon/http/answer.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "daemon/hosts/device_set.h"
#include "daemon/hosts/niceness.h"
#include "daemon/http/http_parts.h"
#include "daemon/http/origin.h"
#include "daemon/http/reading.h"
#include "daemon/models/models.h"
#include "daemon/viewer/traces.h"

enum { HOST_SIZE = 256, METRICS_BYTES = 8 << 20, LINE_BYTES = 4096, FORM_BYTES = 4096 };

/* ---- readiness ---- */

static void say_loading(const struct http_state *state, struct str *body) {
    char file[HOST_WAITS_TEXT];
    bool waits = device_set_waits(state->devices, file);
    str_printf(body, "not ready: models that serve are being loaded%s%s\n", waits ? "; the daemon " : "", waits ? file : "");
}

/* The state in one line; true if the daemon takes new work. */
static bool http_readiness(const struct http_state *state, struct str *body) {
    const struct device_fault *bad = device_watch_faults(state->watches, state->n_watches, true);
    const struct readiness *r = state->ready;
    bool serving = atomic_load(&r->serving), writable = atomic_load(&r->writable), full = atomic_load(&r->results_full);
    bool device_serves = atomic_load(&r->device_serves), journal = atomic_load(&r->journal_fails),
         hooks = atomic_load(&r->hooks_fail);
    int models = atomic_load(&r->models), unsaved = atomic_load(&r->unsaved_streams);
    if (!serving)
        str_puts(body, "not ready: the daemon is starting or stopping\n");
    else if (bad)
        str_printf(body, "not ready: the device takes no new work: %s; %s\n", bad->why, bad->fix);
    else if (!device_serves)
        str_puts(body, "not ready: the device hangs in an order; systemd restarts a daemon that stays so\n");
    else if (!writable)
        str_puts(body,
                 "not ready: the job database cannot be written; free space on the volume of jobs.database, or see the log\n");
    else if (models == MODELS_LOADING)
        say_loading(state, body);
    else if (models == MODELS_FAILED)
        str_puts(body, "not ready: a model that serves could not be loaded; the log says why; load it again, or unload it\n");
    else if (full)
        str_puts(body, "not ready: the volume of paths.results is full; free space on it, or delete jobs (`brrctl delete`)\n");
    else if (unsaved)
        str_printf(body,
                   "not ready: snapshots of %d live stream%s cannot be written (durable: false); free space on the volume of "
                   "paths.results, or see the log\n",
                   unsaved, unsaved == 1 ? "" : "s");
    else if (journal)
        str_puts(body, "not ready: the journal cannot be written, or its volume does not answer; alarms are told all the same\n");
    else if (hooks)
        str_puts(body, "not ready: a hook does not deliver: people may not be told about alarms; the log and `brrctl hooks test` "
                       "say which one and why\n");
    else
        str_puts(body, "ready\n");
    return serving && !bad && device_serves && writable && models == MODELS_WARM && !full && !unsaved && !journal && !hooks;
}

/* ---- who ---- */

/* "10.0.0.7:4711", as auth_caller has it. */
static const char *peer_of(struct MHD_Connection *connection, char ret[AUTH_PEER_SIZE]) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    char host[HOST_SIZE], port[16];
    const socklen_t len =
        info && info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (!info || getnameinfo(info->client_addr, len, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV))
        return "unknown";
    str_format(ret, AUTH_PEER_SIZE, len == sizeof(struct sockaddr_in6) ? "[%s]:%s" : "%s:%s", host, port);
    return ret;
}

/* A page or its events: the browser asks for one of the daemon's names. */
static bool http_host_fits(const struct http_request *r) {
    const struct http_state *state = &r->server->http->state;
    return origin_host_fits(MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Host"), state->names, state->n_names);
}

/* A form comes from one of the daemon's own pages. Call for every POST that changes anything. */
static bool http_form_is_own(const struct http_request *r) {
    const char *host = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Host");
    return http_host_fits(r) && origin_is_own(MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Sec-Fetch-Site"),
                                              MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Origin"), host,
                                              r->server->http->state.tls != NULL);
}

/* Without tokens the pages need a cookie that a link has set, unless they are open; the metrics do not. */
static bool lacks_link(struct http_request *r, struct auth_refusal *ret) {
    const struct http_state *state = &r->server->http->state;
    struct cookie c;
    if (auth_has_tokens(state->auth) || state->open || !strcmp(r->url, "/metrics") || http_cookie(r, COOKIE_LOCAL, &c))
        return false;
    *ret = (struct auth_refusal){.reason = "LINK_MISSING"};
    err_set(&ret->err, ERR_UNAUTHENTICATED,
            "these pages open by a link that `brrctl page` prints for users of the daemon's unix socket; or set http.pages: open");
    return true;
}

/* Metrics and pages need the role read where tokens are configured: in the header, or in the form's cookie. */
static bool admit(struct http_request *r, struct auth_refusal *ret) {
    const struct http_state *state = &r->server->http->state;
    const struct auth_connection connection = {.listener = "http", .role = auth_has_tokens(state->auth) ? ROLE_NONE : ROLE_READ};
    const char *header = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Authorization");
    char peer[AUTH_PEER_SIZE];
    struct cookie cookie;
    const bool by_cookie = !header && auth_has_tokens(state->auth) && http_cookie(r, COOKIE_TOKEN, &cookie);
    const struct auth_request request = {.connection = &connection,
                                         .peer = peer_of(r->connection, peer),
                                         .authorization = header,
                                         .authorization_len = header ? strlen(header) : 0,
                                         .digest = by_cookie ? cookie.digest : NULL};
    const bool list = http_api_method(r) != NULL;
    const bool reading =
        list || str_starts(r->url, "/streams") || str_starts(r->url, "/jobs/") || str_starts(r->url, "/recordings/");
    const struct auth_record record = {.method = r->url, .needed = ROLE_READ, .outcome = "ok", .reading = reading};
    if (lacks_link(r, ret))
        return false;
    if (!auth_identify(state->auth, &request, &r->caller, ret)) {
        auth_count_refusal(state->auth, &r->caller, &record, ret);
        return false;
    }
    auth_audit(state->auth, &r->caller, &record);
    return true;
}

/* An argument without a value, as in /streams?wall. */
static enum MHD_Result see_argument(void *ctx, enum MHD_ValueKind kind, const char *key, const char *value) {
    (void)kind, (void)value;
    *(bool *)ctx |= !strcmp(key, "wall");
    return MHD_YES;
}

static bool on_wall(const struct http_request *r) {
    bool wall = false;
    MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, see_argument, &wall);
    return wall;
}

/* ---- pages ---- */

/* /jobs?ID=on&ID=on, as boxes of a form say it: the ids, separated by commas. */
static enum MHD_Result add_job(void *ctx, enum MHD_ValueKind kind, const char *key, const char *value) {
    (void)kind;
    if (value && !strcmp(value, "on"))
        str_printf(ctx, "%s%s", ((struct str *)ctx)->len ? "," : "", key);
    return MHD_YES;
}

static const char *read_argument(const struct http_request *r, const char *name) {
    return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

static int read_query(const struct http_request *r, struct traces_query *ret, struct err *err) {
    return traces_query_read(read_argument(r, "from"), read_argument(r, "n"), read_argument(r, "bin"), ret, err);
}

/* EEG for the viewer's script, or why there is none. */
static enum MHD_Result answer_samples(const struct http_request *r, int rc, const struct str *body, const struct err *err) {
    return rc ? http_answer_line(r, http_status(rc), err->message)
              : http_answer_text(r, MHD_HTTP_OK, "application/octet-stream", body);
}

/* /recordings/ID/eeg. It reads the recording's file. */
static enum MHD_Result answer_recording(const struct http_request *r, const struct page_view *v) {
    char id[64];
    struct reading_request request = {.what = READING_TRACES, .view = v, .path = id};
    OWNED_POINTER(reading_done) struct reading *reading = NULL;
    struct err err;
    str_format(id, sizeof id, "%.*s", (int)strcspn(r->url + strlen("/recordings/"), "/"), r->url + strlen("/recordings/"));
    int rc = read_query(r, &request.traces, &err);
    rc = rc ? rc : reading_run(&request, &reading, &err);
    return answer_samples(r, rc, reading ? &reading_page(reading)->out : NULL, &err);
}

static enum MHD_Result answer_reading(const struct http_request *r, const struct page_view *v, enum reading_what what,
                                      const char *path) {
    const struct reading_request request = {.what = what, .view = v, .path = path};
    OWNED_POINTER(reading_done) struct reading *reading = NULL;
    struct err err;
    int rc = reading_run(&request, &reading, &err);
    if (rc == ERR_NOT_FOUND)
        return http_answer_error(
            r, v, MHD_HTTP_NOT_FOUND, "Not found",
            what == READING_STREAM ? "There is no stream of this id, and the journal has nothing of one that you may see."
            : what == READING_JOB  ? "There is no job of this id; it may have been deleted."
            : what == READING_JOBS ? "None of these jobs is there; they may have been deleted."
            : what == READING_RECORDING
                ? "The recording is not shown any more, or another caller asked for it. brrctl view FILE shows it again."
                : "The job has no picture of this name.");
    if (rc)
        return http_answer_error(r, v, MHD_HTTP_SERVICE_UNAVAILABLE, "Not now", err.message);
    const struct html *page = reading_page(reading);
    return what != READING_PICTURE ? http_answer_html(r, MHD_HTTP_OK, page)
                                   : http_answer(r->connection, &(struct http_answer){.status = MHD_HTTP_OK,
                                                                                      .type = "image/svg+xml",
                                                                                      .data = str_cstr(&page->out),
                                                                                      .len = page->out.len,
                                                                                      .document = true});
}

/* Jobs side by side; false: the address names none. */
static bool answer_jobs(const struct http_request *r, const struct page_view *v, enum MHD_Result *ret) {
    OWNED(str_done) struct str ids = str_of(READING_PATH - 1);
    MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, add_job, &ids);
    if (!ids.len)
        return false;
    *ret = answer_reading(r, v, READING_JOBS, str_cstr(&ids));
    return true;
}

static const struct {
    const char *path;
    void (*write)(struct html *h, const struct page_view *v);
} pages[] = {
    {"/", page_overview}, {"/streams", page_streams}, {"/alarms", page_alarms}, {"/jobs", page_jobs}, {"/models", page_models}};

/* The overview for those who do not ask for HTML, such as curl. */
static enum MHD_Result answer_line(const struct http_request *r, const struct page_view *v) {
    OWNED(str_done) struct str body = str_of(LINE_BYTES);
    str_printf(&body, "brrd %s (%s): %s\n%s%s\n/metrics /healthz /readyz, and pages for browsers\n", v->status->version,
               v->status->revision, atomic_load(&r->server->http->state.ready->serving) ? "serving" : "not serving", v->readiness,
               v->status->notice);
    return http_answer_text(r, MHD_HTTP_OK, NULL, &body);
}

/* /streams/ID/eeg: EEG of the stream that the reader may see. It touches no file. */
static enum MHD_Result answer_traces(const struct http_request *r, const struct page_view *v) {
    char id[64];
    struct traces_query query;
    OWNED(str_done) struct str body = str_of(TRACES_BYTES);
    struct err err;
    str_format(id, sizeof id, "%.*s", (int)(strlen(r->url) - strlen("/streams/") - strlen("/eeg")), r->url + strlen("/streams/"));
    const struct status_stream *s = page_find_stream(v, id);
    int rc = s ? read_query(r, &query, &err) : err_set(&err, ERR_NOT_FOUND, "there is no stream of this id");
    const bool held = s && s->eeg && eegring_hold(s->eeg);
    if (s && !held)
        rc = err_set(&err, ERR_NOT_FOUND, "no EEG of this stream is kept (viewer.minutes, viewer.memory)");
    if (rc == 0) {
        const struct traces_stream stream = {s->eeg, s->bed.threshold_on, !s->bed.ended_ms};
        rc = traces_of_stream(&stream, &query, &body, &err);
    }
    if (held)
        eegring_drop(s->eeg);
    return answer_samples(r, rc, &body, &err);
}

static enum MHD_Result answer_page(const struct http_request *r, const struct page_view *v) {
    enum MHD_Result result;
    if (!r->browser && !strcmp(r->url, "/"))
        return answer_line(r, v);
    if (str_starts(r->url, "/streams/") && str_ends(r->url, "/eeg"))
        return answer_traces(r, v);
    if (str_starts(r->url, "/streams/") && r->url[9])
        return answer_reading(r, v, READING_STREAM, r->url + 9);
    if (http_is_recording_answer(r->url))
        return http_recording_answers(r, v);
    if (str_starts(r->url, "/recordings/"))
        return str_ends(r->url, "/eeg") ? answer_recording(r, v) : answer_reading(r, v, READING_RECORDING, r->url + 12);
    if (str_starts(r->url, "/jobs/") && r->url[6])
        return answer_reading(r, v, strchr(r->url + 6, '/') ? READING_PICTURE : READING_JOB, r->url + 6);
    if (!strcmp(r->url, "/jobs") && answer_jobs(r, v, &result))
        return result;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(pages[i].path, r->url) != 0)
            continue;
        OWNED(html_done) struct html page = html_of();
        pages[i].write(&page, v);
        return http_answer_html(r, MHD_HTTP_OK, &page);
    }
    return http_answer_error(r, v, MHD_HTTP_NOT_FOUND, "Not found", "There is no such page. The pages are those at the top.");
}

static enum MHD_Result answer_asset(const struct http_request *r, const struct page_asset *asset) {
    char tag[64];
    const char *known = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "If-None-Match");
    str_format(tag, sizeof tag, "ETag: \"%s\"", asset->digest);
    const bool same = known && !strcmp(known, tag + strlen("ETag: "));
    return http_answer(r->connection, &(struct http_answer){.status = same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK,
                                                            .type = asset->type,
                                                            .data = same ? "" : (const char *)asset->data,
                                                            .len = same ? 0 : asset->len,
                                                            .headers = {tag, "Cache-Control: max-age=86400"}});
}

/* ---- requests ---- */

static enum MHD_Result refuse(const struct http_request *r, const struct auth_refusal *refusal) {
    char line[1024];
    if (str_starts(r->url, "/api/"))
        return http_api_refuse(r, MHD_HTTP_UNAUTHORIZED, refusal->reason, refusal->err.message, 0);
    if (!r->browser) {
        str_format(line, sizeof line, "%s: %s", refusal->reason, refusal->err.message);
        return http_answer_line(r, MHD_HTTP_UNAUTHORIZED, line);
    }
    if (!strcmp(refusal->reason, "LINK_MISSING"))
        return http_answer_error(r, NULL, MHD_HTTP_UNAUTHORIZED, "A link is needed", refusal->err.message);
    OWNED(html_done) struct html page = html_of();
    page_login(&page, on_wall(r) ? "/streams?wall" : r->url,
               strcmp(refusal->reason, "TOKEN_MISSING") != 0 ? refusal->err.message : NULL);
    return http_answer_html(r, MHD_HTTP_UNAUTHORIZED, &page);
}

static enum MHD_Result answer_metrics(const struct http_request *r) {
    OWNED(str_done) struct str body = str_of(METRICS_BYTES);
    metrics_print(r->server->http->state.metrics, &body);
    return http_answer_text(r, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", &body);
}

/* For everybody: is the process alive, does it take new work. */
static enum MHD_Result answer_probe(const struct http_request *r) {
    OWNED(str_done) struct str body = str_of(LINE_BYTES);
    unsigned status = MHD_HTTP_OK;
    if (!strcmp(r->url, "/healthz"))
        str_puts(&body, "ok\n");
    else
        status = http_readiness(&r->server->http->state, &body) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    return http_answer_text(r, status, NULL, &body);
}

/* A page, or the answer to the form of a recording, for an admitted caller. */
static enum MHD_Result answer_viewed(const struct http_request *r, const struct str *form) {
    const struct http_state *state = &r->server->http->state;
    OWNED_POINTER(status_drop) const struct status *status = status_newest(state->board);
    OWNED(str_done) struct str line = str_of(LINE_BYTES);
    struct page_view view = http_view(state, &r->caller, status);
    if (!status)
        return http_answer_error(r, NULL, MHD_HTTP_SERVICE_UNAVAILABLE, "Not yet",
                                 "The daemon is starting; try again in a second.");
    view.person = http_person(r);
    view.wall = on_wall(r);
    view.sort = read_argument(r, "sort");
    view.ready = http_readiness(state, &line);
    view.readiness = str_cstr(&line);
    return form ? http_correct_recording(r, &view, form) : answer_page(r, &view);
}

/* What needs the role read. */
static enum MHD_Result answer_reader(struct http_request *r) {
    struct auth_refusal refusal;
    static const char foreign[] = "The daemon does not have the name by which the browser asks for it. Use its address, "
                                  "or list the name in http.names of its configuration.";
    const bool api = str_starts(r->url, "/api/");
    if (strcmp(r->url, "/metrics") != 0 && !http_host_fits(r))
        return api ? http_api_refuse(r, MHD_HTTP_MISDIRECTED_REQUEST, "HOST_UNKNOWN", foreign, 0)
                   : http_answer_error(r, NULL, MHD_HTTP_MISDIRECTED_REQUEST, "Not under this name", foreign);
    if (!strcmp(r->url, "/link"))
        return http_link(r);
    if (!admit(r, &refusal))
        return refuse(r, &refusal);
    if (api)
        return http_api(r);
    if (!strcmp(r->url, "/metrics"))
        return answer_metrics(r);
    if (!strcmp(r->url, "/events"))
        return http_follow(r);
    return answer_viewed(r, NULL);
}

static enum MHD_Result answer_get(struct http_request *r) {
    const struct page_asset *asset = page_asset_find(r->url);
    const char *accepted = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Accept");
    r->browser = accepted && strstr(accepted, "text/html");
    if (!strcmp(r->url, "/healthz") || !strcmp(r->url, "/readyz"))
        return answer_probe(r);
    return asset ? answer_asset(r, asset) : answer_reader(r);
}

static enum MHD_Result answer_post(struct http_request *r, const struct str *form) {
    struct auth_refusal refusal;
    char peer[AUTH_PEER_SIZE];
    if (!http_form_is_own(r))
        return http_answer_error(r, NULL, MHD_HTTP_FORBIDDEN, "Not from here", "The form was sent by a page of another site.");
    str_copy(r->caller.peer, sizeof r->caller.peer, peer_of(r->connection, peer));
    if (http_is_recording_form(r->url))
        return admit(r, &refusal) ? answer_viewed(r, form)
                                  : http_answer_error(r, NULL, MHD_HTTP_UNAUTHORIZED, "Sign in first", refusal.err.message);
    if (!strcmp(r->url, "/alarms"))
        return admit(r, &refusal) ? http_answer_alarm(r, form)
                                  : http_answer_error(r, NULL, MHD_HTTP_UNAUTHORIZED, "Sign in first", refusal.err.message);
    if (!strcmp(r->url, "/logout"))
        return http_logout(r);
    return auth_has_tokens(r->server->http->state.auth)
               ? http_login(r, form)
               : http_answer_error(r, NULL, MHD_HTTP_NOT_FOUND, "Not found", "This daemon has no tokens: nobody needs to sign in.");
}

static enum MHD_Result refuse_method(const struct http_request *r) {
    static const char text[] = "only GET and HEAD are answered here\n";
    return http_answer(r->connection, &(struct http_answer){.status = MHD_HTTP_METHOD_NOT_ALLOWED,
                                                            .data = text,
                                                            .len = strlen(text),
                                                            .headers = {"Allow: GET, HEAD"}});
}

enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
                           const char *upload, size_t *upload_size, void **state) {
    (void)version;
    struct http_request r = {.server = ctx, .connection = connection, .url = url};
    niceness_set(NICENESS_OTHER);
    const bool post = !strcmp(method, "POST") &&
                      (!strcmp(url, "/login") || !strcmp(url, "/logout") || !strcmp(url, "/alarms") || http_is_recording_form(url));
    if (post && !*state) { /* the body follows */
        struct str *form = malloc(sizeof *form);
        if (form)
            *form = str_of(FORM_BYTES);
        *state = form;
        return form ? MHD_YES : MHD_NO;
    }
    if (post && *upload_size) {
        str_append(*state, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    *upload_size = 0;
    http_be_patient(&r, false); /* the request is whole */
    if (post)
        return answer_post(&r, *state);
    return strcmp(method, "GET") && strcmp(method, "HEAD") ? refuse_method(&r) : answer_get(&r);
}

void on_completed(void *ctx, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode why) {
    (void)why;
    http_await_next(ctx, connection);
    if (*state)
        str_done(*state);
    free(*state);
    *state = NULL;
}
