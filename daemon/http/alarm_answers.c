/* POST /alarms: a person answers an alarm, puts a bed in standby or tests it. Never by GET: mail scanners follow
 * links. */

#include "daemon/http/form.h"
#include "daemon/http/http_parts.h"
#include "daemon/rpc/alarm_rights.h"

enum { WORD = 24, NEXT = 100, ALARMS = 32 /* of a form */ };

static int permit_all(void *ctx, const char *principal, const char *bed, struct err *err) {
    (void)ctx, (void)principal, (void)bed, (void)err;
    return 0;
}

/* A field of at most size - 1 bytes. Nothing of an answer with a longer one is taken: it would replace the one that is there. */
static int read_form_text(const char *body, const char *name, char *ret, size_t size, struct err *err) {
    return form_field(body, name, ret, size)
               ? 0
               : err_set(err, ERR_INVALID, "The %s has more than %zu bytes; letters beyond a to z take two or more.", name,
                         size - 1);
}

/* What the fields of the form ask for. */
static int read_order(const char *body, struct desk_order *o, struct err *err) {
    char action[WORD], mark[WORD], standby[WORD];
    int64_t minutes = 0;
    int rc = read_form_text(body, "bed", o->bed, sizeof o->bed, err);
    if (rc || (rc = read_form_text(body, "note", o->answer.note, sizeof o->answer.note, err)) ||
        (rc = read_form_text(body, "person", o->answer.author.person, sizeof o->answer.author.person, err)))
        return rc;
    form_field(body, "action", action, sizeof action);
    form_field(body, "mark", mark, sizeof mark);
    form_field(body, "standby", standby, sizeof standby);
    if (*standby && str_to_i64(standby, &minutes) && minutes >= 0) {
        o->kind = DESK_STANDBY;
        o->until_ms = minutes ? clock_wall_ms() + minutes * 60 * 1000 : 0;
        return 0;
    }
    if (!strcmp(action, "test")) {
        o->kind = DESK_TEST;
        return 0;
    }
    o->kind = DESK_ANSWER;
    o->answer.action = ALARM_MARK;
    if (*mark ? alarm_mark_find(mark, &o->answer.mark)
              : alarm_action_find(action, &o->answer.action) && o->answer.action != ALARM_MARK)
        return 0;
    return err_set(err, ERR_INVALID, "The form has no answer that is known here.");
}

/* Gives the order; an answer to each alarm that the form names, with spaces between their ids. The first error is told. */
static int answer_all(const struct http_state *state, const char *body, struct desk_order *o, struct err *err) {
    char ids[ALARMS * JOURNAL_ALARM], *rest = ids;
    int rc = 0;
    form_field(body, "alarm", ids, sizeof ids);
    do {
        const char *id = strsep(&rest, " ");
        str_copy(o->id, sizeof o->id, id);
        const int next = desk_ask(state->desk, o, rc ? NULL : err);
        rc = rc ? rc : next;
    } while (rest && o->kind == DESK_ANSWER);
    return rc;
}

enum MHD_Result http_answer_alarm(struct http_request *r, const struct str *form) {
    const struct http_state *state = &r->server->http->state;
    const bool open = !auth_has_tokens(state->auth);
    struct desk_order o = {.permit = open ? permit_all : alarm_rights_permit, .ctx = &r->caller};
    char next[NEXT];
    struct err err;
    int rc = read_order(http_form_text(form), &o, &err);
    const char *person = http_person(r);
    if (person)
        str_copy(o.answer.author.person, sizeof o.answer.author.person, person);
    if (person && !*person && !rc)
        rc = err_set(&err, ERR_DENIED, "The proxy has not said who you are (X-Forwarded-User).");
    str_copy(o.answer.author.by, sizeof o.answer.author.by, r->caller.name);
    str_copy(o.answer.author.via, sizeof o.answer.author.via, "page");
    if (rc || (rc = answer_all(state, http_form_text(form), &o, &err)))
        return http_answer_error(r, NULL, http_status(rc), "Not answered", err.message);
    form_field(http_form_text(form), "next", next, sizeof next);
    return http_go(r, form_is_own_path(next) ? next : "/alarms", NULL);
}
