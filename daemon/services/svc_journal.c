/* brr.v1.Journal: the entries of the journal that the caller may see. The file is read on libuv's thread pool, page by page, beside
 * the journal's own thread. */
#include "brr/v1/journal.pb-c.h"
#include "daemon/journal/journaldb.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"

enum { POLL_MS = 250 };

/* A call that reads: one page at a time. */
struct reading {
    struct offload work;
    char path[4096];
    struct journal_filter filter;
    struct journal_page page;
    struct journal_entry *entries; /* page.most of them */
    int n, at;                     /* that were read, and sent */
    int64_t reach;                 /* Follow: id of the newest entry when the page was begun */
    bool full;                     /* Follow: the client has no room */
};

static int read_kinds(const Brr__V1__JournalFilter *in, unsigned *ret, struct err *err) {
    for (size_t i = 0; i < in->n_kinds; i++) {
        enum journal_kind kind;
        if (!journal_kind_find(in->kinds[i], &kind))
            return err_set(
                err, ERR_INVALID,
                "JournalFilter.kinds: there is no kind '%.40s'; expected alarm_on, alarm_off, event, gap, quality, opened, "
                "resumed, lost, restored, ended, moved, told, answered, escalated, standby, technical_on, technical_off or holder",
                in->kinds[i]);
        *ret |= 1u << kind;
    }
    return 0;
}

static int read_filter(const struct auth_caller *caller, const Brr__V1__JournalFilter *in, struct journal_filter *ret,
                       struct err *err) {
    *ret = (struct journal_filter){0};
    _Static_assert(sizeof ret->names >= sizeof caller->names, "the filter holds the names of a token");
    str_copy(ret->names, sizeof ret->names, auth_sees(caller, "") ? "" : caller->names);
    ret->match = token_names_match;
    if (!auth_sees(caller, "") && !*ret->names)
        str_copy(ret->principal, sizeof ret->principal, caller->name);
    if (!in)
        return 0;
    if (strlen(in->client) >= sizeof ret->client || strlen(in->session) >= sizeof ret->session)
        return err_set(err, ERR_INVALID, "JournalFilter.client or session is too long; expected at most %zu and %zu bytes",
                       sizeof ret->client - 1, sizeof ret->session - 1);
    if (!options_is_pattern(in->client))
        return err_set(err, ERR_INVALID, "JournalFilter.client: '%.60s' has a [ without its ]", in->client);
    COPY_TEXTS(*ret, *in, client, session);
    COPY_MEMBERS(*ret, *in, since_ms, until_ms);
    return read_kinds(in, &ret->kinds, err);
}

static void reading_drop(struct offload *work) { free(((struct reading *)work)->entries); }

/* The state of a call with this filter; NULL after an error. */
static struct reading *reading_new(struct rpc_call *call, const Brr__V1__JournalFilter *in, int most, struct err *err) {
    struct journal_filter filter;
    struct reading *r = NULL;
    OWNED_MEMORY struct journal_entry *entries = NULL;
    if (read_filter(rpc_caller(call), in, &filter, err))
        return NULL;
    if (!(entries = malloc((size_t)most * sizeof *entries)))
        err_set(err, ERR_EXHAUSTED, "out of memory reading the journal; try again later");
    else
        r = offload_new(call, OFFLOAD_LOGS, sizeof *r, reading_drop, err);
    if (!r)
        return NULL;
    r->entries = entries;
    entries = NULL;
    r->filter = filter;
    r->page = (struct journal_page){.most = most, .stop = &r->work.gone};
    str_copy(r->path, sizeof r->path, journal_path(services_of(call)->journal));
    return r;
}

static void keep_entry(void *ctx, const struct journal_entry *e) {
    struct reading *r = ctx;
    r->entries[r->n++] = *e;
}

/* On the pool: the next page. */
static void read_page(struct offload *work) {
    struct reading *r = (struct reading *)work;
    struct db *db = NULL;
    r->n = r->at = 0;
    if (journaldb_open_reader(r->path, &db, &work->err))
        return;
    (void)journaldb_list(db, &r->filter, &r->page, keep_entry, r, &work->err);
    db_close(db);
}

/* Borrows from the entry. */
static void describe(const struct journal_entry *e, Brr__V1__JournalEntry *out) {
    brr__v1__journal_entry__init(out);
    out->kind = (char *)(uintptr_t)journal_kind_name(e->kind);
    COPY_MEMBERS(*out, *e, id, received_ms, sample_ms, start_s, end_s, value, live, step, until_ms);
    out->session_id = (char *)(uintptr_t)e->session;
    out->client_name = (char *)(uintptr_t)e->client;
    LEND_TEXTS(*out, *e, principal, address, model, detail, person, where);
    out->model_sha256 = (char *)(uintptr_t)e->sha256;
    out->alarm_id = (char *)(uintptr_t)e->alarm;
}

/* ---- List ---- */

static void on_listed(struct offload *work) {
    struct reading *r = (struct reading *)work;
    Brr__V1__ListJournalResponse out = BRR__V1__LIST_JOURNAL_RESPONSE__INIT;
    if (!offload_good(work))
        return;
    OWNED_MEMORY Brr__V1__JournalEntry *items = calloc((size_t)r->n + 1, sizeof *items);
    OWNED_MEMORY Brr__V1__JournalEntry **list = calloc((size_t)r->n + 1, sizeof *list);
    if (!items || !list) {
        err_set(&work->err, ERR_EXHAUSTED, "out of memory listing the journal; try again later");
        rpc_finish(work->call, &work->err);
        return;
    }
    for (int i = 0; i < r->n; i++) {
        describe(&r->entries[i], &items[i]);
        list[i] = &items[i];
    }
    out.entries = list;
    out.n_entries = (size_t)r->n;
    out.cursor = r->n == r->page.most ? r->entries[r->n - 1].id : 0;
    convert_answer(work->call, &out.base);
}

static int list(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__ListJournalRequest *in = message;
    int most = in->limit > 0 && in->limit < JOURNALDB_PAGE ? in->limit : JOURNALDB_PAGE;
    struct reading *r = reading_new(call, in->filter, most, err);
    if (!r)
        return err->code;
    r->page.after = in->cursor;
    r->page.newest_first = in->newest_first;
    offload_start(&r->work, read_page, on_listed);
    return 0;
}

/* ---- Follow ---- */

static void on_page(struct offload *work);

static void send_page(struct reading *r) {
    while (r->at < r->n && !r->full) {
        Brr__V1__JournalEntry out;
        describe(&r->entries[r->at++], &out);
        r->full = !convert_send(r->work.call, &out.base);
    }
}

/* Reads on if something was written since. */
static void read_on(struct reading *r) {
    if (r->full || r->work.working)
        return;
    r->reach = journal_newest(services_of(r->work.call)->journal);
    if (r->page.after < r->reach)
        offload_start(&r->work, read_page, on_page);
}

static void on_page(struct offload *work) {
    struct reading *r = (struct reading *)work;
    if (!offload_good(work))
        return;
    bool whole = r->n < r->page.most; /* then the entries up to `reach` have been looked at, wanted or not */
    int64_t last = r->n ? r->entries[r->n - 1].id : r->page.after;
    r->page.after = whole && r->reach > last ? r->reach : last;
    send_page(r);
    if (!whole)
        read_on(r);
}

static void journal_look(struct rpc_call *call) { read_on(rpc_state(call)); }

static int follow(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__FollowJournalRequest *in = message;
    struct reading *r = reading_new(call, in->filter, JOURNALDB_PAGE, err);
    if (!r)
        return err->code;
    r->page.after = in->after_id > 0 || r->filter.since_ms > 0 ? in->after_id : journal_newest(services_of(call)->journal);
    rpc_tick(call, 0, POLL_MS, journal_look);
    return 0;
}

static void follow_writable(struct rpc_call *call) {
    struct reading *r = rpc_state(call);
    if (!r)
        return;
    r->full = false;
    if (r->work.working)
        return;
    send_page(r);
    read_on(r);
}

const struct rpc_method svc_journal[] = {
    {RPC_METHOD("/brr.v1.Journal/List", ROLE_READ, brr__v1__list_journal_request, list), .reading = true, .end = offload_end},
    {RPC_METHOD("/brr.v1.Journal/Follow", ROLE_READ, brr__v1__follow_journal_request, follow), .reading = true,
     .writable = follow_writable, .end = offload_end},
    {.path = NULL},
};
