/* brr.v1.Beds: what a tile of the pages shows (daemon/status), with the alarms as the register has them. */

#include "base/order.h"
#include "brr/v1/beds.pb-c.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"
#include "daemon/status/gather.h"

enum { LIST_BYTES = 32 << 20 };

struct listing {
    const struct auth_caller *caller;
    struct arena arena;
    const struct alarms *alarms;
    struct alarms_now now;
    const struct alarm **technical; /* those that must be shown, by their beds */
    size_t n_technical;
    bool full; /* of memory */
};

static void *bed_memory(struct listing *l, size_t size) {
    void *memory = arena_alloc(&l->arena, size);
    l->full |= !memory;
    return memory;
}

/* NULL: there is none that the caller sees, or no memory. */
static Brr__V1__BedAlarm *message_of_alarm(struct listing *l, const struct alarm *a) {
    struct alarm_message *m = a && auth_sees_bed(l->caller, a->principal, a->bed) ? bed_memory(l, sizeof *m) : NULL;
    if (m)
        convert_alarm(a, &l->now, m);
    return m ? &m->alarm : NULL;
}

static int by_bed(const void *a, const void *b) {
    const struct alarm *l = *(const struct alarm *const *)a, *r = *(const struct alarm *const *)b;
    return order_then(strcmp(l->bed, r->bed), strcmp(l->principal, r->principal));
}

static void find_technical(struct listing *l) {
    struct alarms_cursor cursor = {0};
    if (!(l->technical = bed_memory(l, ALARMS_MAX * sizeof *l->technical)))
        return;
    for (const struct alarm *a; l->n_technical < ALARMS_MAX && (a = alarms_next(l->alarms, &cursor));)
        if (a->kind != ALARM_SEIZURE && alarm_is_open(a))
            l->technical[l->n_technical++] = a;
    SORT(l->technical, l->n_technical, by_bed);
}

static void put_technical(struct listing *l, const struct status_stream *s, Brr__V1__Bed *out) {
    size_t first = 0, end = l->n_technical;
    while (first < end) { /* of this bed */
        const size_t middle = (first + end) / 2;
        if (strcmp(l->technical[middle]->bed, s->bed.name) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    for (end = first; end < l->n_technical && !strcmp(l->technical[end]->bed, s->bed.name);)
        end++;
    if (first == end || !(out->technical = bed_memory(l, (end - first) * sizeof *out->technical)))
        return;
    for (size_t i = first; i < end; i++)
        if (gather_is_of_tile(l->alarms, l->technical[i], s) &&
            (out->technical[out->n_technical] = message_of_alarm(l, l->technical[i])))
            out->n_technical++;
}

static Brr__V1__Bed *bed_of(struct listing *l, const struct status_stream *s) {
    Brr__V1__Bed *out = bed_memory(l, sizeof *out);
    if (!out)
        return NULL;
    *out = s->bed;
    out->alarm = s->alarm ? message_of_alarm(l, alarms_find(l->alarms, s->alarm->id)) : NULL;
    put_technical(l, s, out);
    return out;
}

static int answer_beds(struct rpc_call *call, struct listing *l, const struct status *status, struct err *err) {
    Brr__V1__ListBedsResponse out = BRR__V1__LIST_BEDS_RESPONSE__INIT;
    find_technical(l);
    out.beds = bed_memory(l, (size_t)(status->n_streams + 1) * sizeof *out.beds);
    for (int i = 0; i < status->n_streams && !l->full; i++) {
        const struct status_stream *s = &status->streams[i];
        if (auth_sees_bed(l->caller, s->bed.principal, s->bed.name))
            out.beds[out.n_beds++] = bed_of(l, s);
    }
    out.taken_ms = status->taken_ms;
    out.left_out = auth_sees(l->caller, "") ? status->left_streams : 0; /* of others, whom some callers do not see */
    return l->full ? err_set(err, ERR_EXHAUSTED, "out of memory listing %d beds; try again later", status->n_streams)
                   : convert_answer(call, &out.base);
}

static int list_beds(struct rpc_call *call, const void *message, struct err *err) {
    const struct services *services = services_of(call);
    const struct status *status = services->gather ? gather_newest(services->gather) : NULL;
    struct listing l = {.caller = rpc_caller(call), .arena = arena_of(LIST_BYTES), .now = desk_now()};
    (void)message;
    l.alarms = desk_alarms(services->desk);
    if (!status) {
        err_set(err, ERR_UNAVAILABLE, "the daemon has not looked at its beds yet; try again in a second");
        return rpc_refuse(call, err, NULL, 1000);
    }
    const int rc = answer_beds(call, &l, status, err);
    arena_done(&l.arena);
    status_drop(status);
    return rc;
}

const struct rpc_method svc_beds[] = {
    {RPC_METHOD("/brr.v1.Beds/List", ROLE_READ, brr__v1__list_beds_request, list_beds),
     RPC_ROUTE("/api/v1/beds", brr__v1__list_beds_response)},
    {.path = NULL},
};
