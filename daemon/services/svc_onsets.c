/* brr.v1.Alarms: the EEG of onsets that is kept (journal/onset_files.h), for callers who see the bed of the alarm by its row of the
 * journal. An alarm without a row is of no bed. Folder, journal and files are read on the thread pool. */
#include "brr/v1/alarms.pb-c.h"
#include "daemon/journal/journaldb.h"
#include "daemon/journal/onset_files.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"

OWNABLE(struct db, db_close)

enum { LISTED = 1000 };

struct onset_call {
    struct offload work;
    struct auth_caller caller;
    char journal[4096], results[ONSETS_PATH], alarm[JOURNAL_ALARM];
    int64_t since_ms;
    Brr__V1__ListOnsetsResponse out;
};

static struct onset_call *call_new(struct rpc_call *call, struct err *err) {
    const struct services *s = services_of(call);
    struct onset_call *o = offload_new(call, OFFLOAD_LOGS, sizeof *o, NULL, err);
    if (!o)
        return NULL;
    o->caller = *rpc_caller(call);
    str_copy(o->journal, sizeof o->journal, journal_path(s->journal));
    str_copy(o->results, sizeof o->results, s->places.results_dir);
    return o;
}

/* Whether the caller sees the bed of this alarm, whose row it receives if there is one. */
static bool sees(const struct auth_caller *caller, struct db *db, const char *alarm, struct journal_entry *ret) {
    struct err ignored;
    *ret = (struct journal_entry){0};
    return journaldb_alarm(db, alarm, ret, &ignored) ? auth_sees(caller, "") : auth_sees_bed(caller, ret->principal, ret->client);
}

/* ---- list ---- */

static Brr__V1__Onset *message_of(struct arena *arena, const struct onset_file *f, const char *bed) {
    Brr__V1__Onset *m = arena_alloc(arena, sizeof *m);
    if (!m)
        return NULL;
    brr__v1__onset__init(m);
    m->alarm_id = arena_strdup(arena, f->alarm);
    m->bed = arena_strdup(arena, bed);
    m->on_ms = f->wall_ms;
    m->bytes = f->bytes;
    return m->alarm_id && m->bed ? m : NULL;
}

/* On the pool. */
static void read_list(struct offload *work) {
    struct onset_call *o = (struct onset_call *)work;
    OWNED(onset_files_done) struct onset_files files = {0};
    OWNED_POINTER(db_close) struct db *db = NULL;
    Brr__V1__ListOnsetsResponse *out = &o->out;
    struct journal_entry e;
    brr__v1__list_onsets_response__init(out);
    if (onsets_list(o->results, NULL, &files, &work->err) || journaldb_open_reader(o->journal, &db, &work->err) ||
        !(out->onsets = arena_alloc(work->arena, LISTED * sizeof *out->onsets)))
        return;
    int i = files.n - 1;
    for (; i >= 0 && files.list[i].wall_ms >= o->since_ms && !atomic_load(&work->gone); i--) {
        if (!sees(&o->caller, db, files.list[i].alarm, &e))
            continue;
        if (out->n_onsets == LISTED) {
            out->left_out++;
        } else if (!(out->onsets[out->n_onsets++] = message_of(work->arena, &files.list[i], e.client))) {
            err_set(&work->err, ERR_EXHAUSTED, "out of memory listing alarms; try again later");
            return;
        }
    }
}

static void answer_list(struct offload *work) {
    const struct onset_call *o = (struct onset_call *)work;
    offload_answer(work, o->out.onsets ? &o->out : NULL, "alarms");
}

static int list_onsets(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__ListOnsetsRequest *in = message;
    struct onset_call *o = call_new(call, err);
    if (!o)
        return err->code;
    o->since_ms = in->since_ms;
    offload_start(&o->work, read_list, answer_list);
    return 0;
}

/* ---- get ---- */

/* On the pool. */
static void open_onset(struct offload *work) {
    struct onset_call *o = (struct onset_call *)work;
    OWNED(onset_files_done) struct onset_files files = {0};
    OWNED_POINTER(db_close) struct db *db = NULL;
    struct journal_entry e;
    char path[ONSETS_PATH];
    size_t bytes;
    if (journaldb_open_reader(o->journal, &db, &work->err) || onsets_list(o->results, o->alarm, &files, &work->err))
        return;
    if (!files.n || !sees(&o->caller, db, o->alarm, &e))
        err_set(&work->err, ERR_NOT_FOUND, "no EEG of an alarm '%.60s' is kept that this caller may see (journal.onsets)",
                o->alarm);
    else if (!onset_path(o->results, files.list, path, &work->err))
        (void)fsio_open_file(path, &work->fd, &bytes, &work->err);
}

/* On the pool. */
static void pack_part(struct offload *work) {
    Brr__V1__OnsetPart out = BRR__V1__ONSET_PART__INIT;
    if (work->fd < 0) {
        open_onset(work);
        if (work->err.code)
            return;
    }
    if (offload_read(work, "the EEG of an alarm", &out.data) && out.data.len)
        offload_pack(work, &out.base);
}

static int get_onset(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__GetOnsetRequest *in = message;
    struct onset_call *o = call_new(call, err);
    if (!o)
        return err->code;
    str_copy(o->alarm, sizeof o->alarm, in->alarm_id);
    rpc_concerns(call, "alarm", o->alarm);
    offload_stream(&o->work, pack_part);
    return 0;
}

const struct rpc_method svc_onsets[] = {
    {RPC_METHOD("/brr.v1.Alarms/ListOnsets", ROLE_READ, brr__v1__list_onsets_request, list_onsets), .end = offload_end},
    {RPC_METHOD("/brr.v1.Alarms/GetOnset", ROLE_READ, brr__v1__get_onset_request, get_onset), .reading = true,
     .writable = offload_writable, .end = offload_end},
    {.path = NULL},
};
