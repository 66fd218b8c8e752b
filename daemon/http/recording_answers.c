/* /recordings/ID/answers: GET gives the answers of readers about a recording, POST saves one more; /recordings/ID/labels.tsv is the
 * label file. Saving needs the role submit, as the call that showed the recording did. */

#include "base/log.h"
#include "daemon/http/form.h"
#include "daemon/http/http_parts.h"
#include "daemon/http/reading.h"

enum { ID_SIZE = 64, NUMBER = 32, WORD = 24 };

bool http_is_recording_form(const char *url) { return str_starts(url, "/recordings/") && str_ends(url, "/answers"); }

/* A field that is a number; NaN without one. */
static int read_form_number(const char *body, const char *name, double *ret, struct err *err) {
    char text[NUMBER];
    *ret = NAN;
    form_field(body, name, text, sizeof text);
    if (!*text || str_to_f64(text, ret))
        return 0;
    return err_set(err, ERR_INVALID, "%s: '%s' is no number", name, text);
}

/* The field, which is too long if it has `size` bytes or more. */
static int read_form_line(const char *body, const char *name, char *ret, size_t size, struct err *err) {
    char text[ANSWER_COMMENT_SIZE + 1];
    return form_field(body, name, text, sizeof text) && str_copy(ret, size, text)
               ? 0
               : err_set(err, ERR_INVALID, "%s: expected at most %zu bytes of text", name, size - 1);
}

static int read_form(const char *body, struct correction_form *ret, struct err *err) {
    struct correction *c = &ret->correction;
    struct answer *a = &c->answer;
    char verb[WORD], replace[WORD];
    double from_s, to_s;
    int rc;
    form_field(body, "action", verb, sizeof verb);
    form_field(body, "replace", replace, sizeof replace);
    form_field(body, "seen", ret->seen, sizeof ret->seen);
    if (!correction_verb_find(verb, &c->verb))
        return err_set(err, ERR_INVALID, "action: expected accept, reject, unsure, add, done or withdraw");
    if ((rc = read_form_number(body, "onset", &a->onset_s, err)) || (rc = read_form_number(body, "end", &a->end_s, err)) ||
        (rc = read_form_number(body, "from", &from_s, err)) || (rc = read_form_number(body, "to", &to_s, err)) ||
        (rc = read_form_number(body, "confidence", &a->confidence, err)) ||
        (rc = read_form_line(body, "type", a->type, sizeof a->type, err)) ||
        (rc = read_form_line(body, "reader", a->reader, sizeof a->reader, err)) ||
        (rc = read_form_line(body, "comment", a->comment, sizeof a->comment, err)))
        return rc;
    c->has_event = isfinite(from_s) && isfinite(to_s);
    c->event_onset_s = from_s;
    c->event_end_s = to_s;
    c->replace = !strcmp(replace, "1");
    return 0;
}

static void take_id(const struct http_request *r, char ret[ID_SIZE]) {
    const char *id = r->url + strlen("/recordings/");
    str_format(ret, ID_SIZE, "%.*s", (int)strcspn(id, "/"), id);
}

static enum MHD_Result read_answers(const struct http_request *r, const struct page_view *v, enum reading_what what,
                                    const struct correction_form *form, int *ret_rc) {
    char id[ID_SIZE];
    const struct reading_request request = {.what = what, .view = v, .path = id, .form = form};
    OWNED_POINTER(reading_done) struct reading *reading = NULL;
    struct err err;
    take_id(r, id);
    *ret_rc = reading_run(&request, &reading, &err);
    return *ret_rc ? http_answer_line(r, http_status(*ret_rc), err.message)
                   : http_answer_text(r, MHD_HTTP_OK,
                                      what == READING_EXPORT ? "text/tab-separated-values; charset=utf-8" : "application/json",
                                      &reading_page(reading)->out);
}

bool http_is_recording_answer(const char *url) {
    return http_is_recording_form(url) || (str_starts(url, "/recordings/") && str_ends(url, "/labels.tsv"));
}

enum MHD_Result http_recording_answers(const struct http_request *r, const struct page_view *v) {
    int rc;
    return read_answers(r, v, http_is_recording_form(r->url) ? READING_ANSWERS : READING_EXPORT, NULL, &rc);
}

/* Logs who answered what about which recording, and how it ended. */
static void audit_answer(const struct http_request *r, const struct page_view *v, const struct correction *c, int rc) {
    char id[ID_SIZE];
    struct correction_place place;
    take_id(r, id);
    struct recording_entry *recording = recordings_find(v->recordings, v->all ? NULL : v->principal, id);
    const bool found = recording && recording_answers(recording, &place);
    const struct auth_record record = {.method = r->url,
                                       .needed = ROLE_SUBMIT,
                                       .outcome = err_name(rc),
                                       .kind = "recording",
                                       .id = found ? log_name(place.relative) : id,
                                       .action = c->verb < CORRECTION_VERBS ? correction_verbs[c->verb] : NULL,
                                       .person = c->answer.reader};
    auth_audit(r->server->http->state.auth, &r->caller, &record);
    recording_drop(recording);
}

static int take_form(const struct http_request *r, const char *body, struct correction_form *ret, struct err *err) {
    const char *person = http_person(r);
    *ret = (struct correction_form){.correction.verb = CORRECTION_VERBS};
    int rc = body ? read_form(body, ret, err) : err_set(err, ERR_RANGE, "the form is too long");
    if (person)
        str_copy(ret->correction.answer.reader, sizeof ret->correction.answer.reader, person);
    return rc || !person || *person ? rc : err_set(err, ERR_DENIED, "the proxy has not said who you are (X-Forwarded-User)");
}

enum MHD_Result http_correct_recording(const struct http_request *r, const struct page_view *v, const struct str *sent) {
    const struct auth_record record = {.method = r->url, .needed = ROLE_SUBMIT};
    struct auth *auth = r->server->http->state.auth;
    struct auth_refusal refusal;
    struct correction_form form;
    struct err err;
    const char *body = http_form_text(sent);
    if (!v->corrects && !auth_permits(&r->caller, ROLE_SUBMIT, r->url, &refusal)) {
        auth_count_refusal(auth, &r->caller, &record, &refusal);
        return http_answer_line(r, MHD_HTTP_FORBIDDEN, refusal.err.message);
    }
    int rc = take_form(r, body, &form, &err);
    enum MHD_Result result = rc ? http_answer_line(r, body ? http_status(rc) : MHD_HTTP_CONTENT_TOO_LARGE, err.message)
                                : read_answers(r, v, READING_ANSWERS, &form, &rc);
    audit_answer(r, v, &form.correction, rc);
    return result;
}
