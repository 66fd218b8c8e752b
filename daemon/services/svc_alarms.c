/* brr.v1.Alarms: the alarms of beds, and what people answer (alarms/desk.h). */
#include "brr/v1/alarms.pb-c.h"
#include "daemon/rpc/alarm_rights.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"

enum { LISTED = 1000, MOST = 2 * ALARMS_MAX, LOOK_MS = 5 };

/* ---- List ---- */

static bool wanted(const struct auth_caller *caller, const Brr__V1__ListAlarmsRequest *in, const struct alarm *a) {
    return auth_sees_bed(caller, a->principal, a->bed) && (!in->open || alarm_is_open(a)) &&
           (!*in->bed || !strcmp(a->bed, in->bed)) && (!a->off_ms || a->off_ms >= in->since_ms);
}

static int list(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__ListAlarmsRequest *in = message;
    const struct alarms *all = desk_alarms(services_of(call)->desk);
    const struct alarms_now now = desk_now();
    Brr__V1__ListAlarmsResponse out = BRR__V1__LIST_ALARMS_RESPONSE__INIT;
    struct alarm_message *items = arena_alloc(rpc_arena(call), LISTED * sizeof *items);
    Brr__V1__BedAlarm **list = arena_alloc(rpc_arena(call), LISTED * sizeof *list);
    const struct alarm **found = arena_alloc(rpc_arena(call), MOST * sizeof *found);
    size_t n = 0;
    if (!items || !list || !found)
        return err_set(err, ERR_EXHAUSTED, "out of memory listing alarms; try again later");
    struct alarms_cursor cursor = {0};
    for (const struct alarm *a; n < MOST && (a = alarms_next(all, &cursor));)
        if (wanted(rpc_caller(call), in, a))
            found[n++] = a;
    qsort(found, n, sizeof *found, alarms_by_rank);
    for (; out.n_alarms < n && out.n_alarms < LISTED; out.n_alarms++) {
        convert_alarm(found[out.n_alarms], &now, &items[out.n_alarms]);
        list[out.n_alarms] = &items[out.n_alarms].alarm;
    }
    out.left_out = (int64_t)(n - out.n_alarms);
    out.alarms = list;
    return convert_answer(call, &out.base);
}

/* ---- orders ---- */

/* An order that was carried out, and whose entry is on its way to the disk. */
struct writing {
    char id[JOURNAL_ALARM]; /* "": a standby */
    int64_t until_ms, journaled, deadline_ms;
};

static void answer_call(struct rpc_call *call, const char *id, int64_t until_ms) {
    const struct alarms_now now = desk_now();
    const struct alarm *a = *id ? alarms_find(desk_alarms(services_of(call)->desk), id) : NULL;
    Brr__V1__StandbyResponse standby = BRR__V1__STANDBY_RESPONSE__INIT;
    struct alarm_message alarm;
    standby.until_ms = until_ms;
    if (a)
        convert_alarm(a, &now, &alarm);
    if (a)
        convert_answer(call, &alarm.alarm.base);
    else if (!*id)
        convert_answer(call, &standby.base);
    else
        rpc_finish(call, NULL); /* its stream has moved to another daemon meanwhile */
}

static void await_entry(struct rpc_call *call) {
    const struct writing *w = rpc_state(call);
    if (journal_has(services_of(call)->journal, w->journaled) || clock_ms() >= w->deadline_ms)
        answer_call(call, w->id, w->until_ms);
}

/* Carries it out, and answers when the journal has it, or after DESK_WRITE_MS: an answer that a person has seen accepted is kept.
 */
static int carry_out(struct rpc_call *call, struct desk_order *o, struct err *err) {
    int rc = desk_do(services_of(call)->desk, o, err);
    if (rc)
        return rc;
    struct writing *w = o->journaled ? arena_alloc(rpc_arena(call), sizeof *w) : NULL;
    if (!w) {
        answer_call(call, o->id, o->until_ms);
        return 0;
    }
    COPY_MEMBERS(*w, *o, until_ms, journaled);
    w->deadline_ms = clock_ms() + DESK_WRITE_MS;
    str_copy(w->id, sizeof w->id, o->id);
    rpc_set_state(call, w);
    rpc_tick(call, 0, LOOK_MS, await_entry);
    return 0;
}

static struct desk_order order_of(struct rpc_call *call, const char *person, const char *via) {
    struct desk_order o = {.permit = alarm_rights_permit, .ctx = (void *)(uintptr_t)rpc_caller(call)};
    str_copy(o.answer.author.by, sizeof o.answer.author.by, rpc_caller(call)->name);
    str_copy(o.answer.author.person, sizeof o.answer.author.person, person);
    str_copy(o.answer.author.via, sizeof o.answer.author.via, strcmp(via, "brrctl") ? "rpc" : "brrctl");
    return o;
}

static int fit(const char *what, const char *given, size_t size, struct err *err) {
    return strlen(given) < size ? 0 : err_set(err, ERR_INVALID, "the %s is too long; expected at most %zu bytes", what, size - 1);
}

static int answer(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__AnswerAlarmRequest *in = message;
    struct desk_order o = order_of(call, in->person, in->via);
    int rc;
    if ((rc = fit("name of the person", in->person, sizeof o.answer.author.person, err)) ||
        (rc = fit("note", in->note, sizeof o.answer.note, err)))
        return rc;
    str_copy(o.id, sizeof o.id, in->alarm_id);
    str_copy(o.answer.note, sizeof o.answer.note, in->note);
    o.answer.for_ms = in->for_ms;
    if (!alarm_action_find(in->action, &o.answer.action))
        return err_set(err, ERR_INVALID, "AnswerAlarmRequest.action: '%.40s'; expected acknowledge, silence, mark or note",
                       in->action);
    if (o.answer.action == ALARM_MARK && !alarm_mark_find(in->mark, &o.answer.mark))
        return err_set(err, ERR_INVALID, "AnswerAlarmRequest.mark: '%.40s'; expected true, false or unclear", in->mark);
    rpc_concerns(call, "alarm", o.id);
    return carry_out(call, &o, err);
}

static int test(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__TestAlarmRequest *in = message;
    struct desk_order o = order_of(call, "", "");
    o.kind = DESK_TEST;
    int rc = fit("name of the bed", in->bed, sizeof o.bed, err);
    str_copy(o.bed, sizeof o.bed, in->bed);
    return rc ? rc : carry_out(call, &o, err);
}

static int standby(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__StandbyRequest *in = message;
    struct desk_order o = order_of(call, in->person, in->via);
    int rc;
    o.kind = DESK_STANDBY;
    o.until_ms = in->until_ms;
    str_copy(o.bed, sizeof o.bed, in->bed);
    if ((rc = fit("name of the person", in->person, sizeof o.answer.author.person, err)) ||
        (rc = fit("name of the bed", in->bed, sizeof o.bed, err)))
        return rc;
    return carry_out(call, &o, err);
}

const struct rpc_method svc_alarms[] = {
    {RPC_METHOD("/brr.v1.Alarms/List", ROLE_READ, brr__v1__list_alarms_request, list),
     RPC_ROUTE("/api/v1/alarms", brr__v1__list_alarms_response)},
    {RPC_METHOD("/brr.v1.Alarms/Answer", ROLE_READ, brr__v1__answer_alarm_request, answer)},
    {RPC_METHOD("/brr.v1.Alarms/Standby", ROLE_READ, brr__v1__standby_request, standby)},
    {RPC_METHOD("/brr.v1.Alarms/Test", ROLE_READ, brr__v1__test_alarm_request, test)},
    {.path = NULL},
};
