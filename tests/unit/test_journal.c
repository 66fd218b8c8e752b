/* journal: entries come back in order and once, the oldest go by age and size, a volume that cannot be written loses nothing that
 * fits into memory, and a reader sees what it asks for. */
#include "daemon/journal/journal.h"

#include <sched.h>
#include <sys/mount.h>

#include "base/base.h"
#include "daemon/journal/journaldb.h"
#include "unit/temp_dir.h"

static const struct metric_family families[] = {
    COUNTER("brrd_journal_entries_total", "Written.", "kind"),
    COUNTER("brrd_journal_entries_dropped_total", "Dropped.", "reason"),
    COUNTER("brrd_journal_write_errors_total", "Errors.", ""),
};

static struct metrics *metrics;

static double value(const char *family, const char *label) { return metric_value(metrics_series(metrics, family, label)); }

static struct journal *start(const char *path, int64_t keep_ms, int64_t max_bytes) {
    struct journal *j = NULL;
    struct err err;
    metrics_free(metrics);
    metrics = metrics_new(families, sizeof families / sizeof *families, 16);
    const struct journal_config config = {.path = path, .keep_ms = keep_ms, .max_bytes = max_bytes, .metrics = metrics};
    if (journal_start(&config, &j, &err))
        fail_msg("%s", err.message);
    return j;
}

static struct journal_entry entry(enum journal_kind kind, const char *client, int64_t number) {
    struct journal_entry e = {.kind = kind, .number = number, .start_s = 1.5, .end_s = NAN, .value = 0.75};
    e.received_ms = clock_wall_ms();
    str_copy(e.session, sizeof e.session, "5e55");
    str_copy(e.principal, sizeof e.principal, strcmp(client, "icu-1") ? "token:ana" : "token:bob");
    str_copy(e.client, sizeof e.client, client);
    return e;
}

static void wait_for(const struct journal *j, int64_t number) {
    for (int i = 0; !journal_has(j, number); i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

struct page {
    struct journal_entry e[64];
    int n;
};

static void keep(void *ctx, const struct journal_entry *e) {
    struct page *p = ctx;
    assert_true(p->n < 64);
    p->e[p->n++] = *e;
}

static struct page read_some(const char *path, const struct journal_filter *filter, struct journal_page page) {
    static struct page p;
    struct db *db = NULL;
    struct err err;
    p.n = 0;
    if (journaldb_open_reader(path, &db, &err) || journaldb_list(db, filter, &page, keep, &p, &err))
        fail_msg("%s", err.message);
    db_close(db);
    return p;
}

static const struct journal_filter all = {.client = ""};
static const struct journal_page forward = {.most = 64};

static void entries_come_back_in_order_and_once(void **state) {
    const char *path = in_dir(state, "j.sqlite");
    struct journal *j = start(path, -1, -1);
    struct journal_entry e = entry(JOURNAL_ALARM_ON, "icu-1", 0);
    e.sample_ms = 1234;
    str_copy(e.detail, sizeof e.detail, "Fp1 flat, \"O2\" noisy");
    journal_add(j, &e);
    e.value = 0.5; /* the same alarm again, as after a restore */
    journal_add(j, &e);
    e = entry(JOURNAL_ALARM_OFF, "icu-1", 0); /* another kind of the same number */
    journal_add(j, &e);
    e = entry(JOURNAL_LOST, "icu-1", -1);
    journal_add(j, &e);
    wait_for(j, journal_add(j, &e)); /* no number: each is written */
    struct page p = read_some(path, &all, forward);
    assert_int_equal(p.n, 4);
    assert_int_equal(p.e[0].kind, JOURNAL_ALARM_ON);
    assert_true(p.e[0].value == 0.75 && p.e[0].start_s == 1.5 && isnan(p.e[0].end_s));
    assert_int_equal(p.e[0].sample_ms, 1234);
    assert_string_equal(p.e[0].detail, "Fp1 flat, \"O2\" noisy");
    assert_int_equal(p.e[1].kind, JOURNAL_ALARM_OFF);
    assert_int_equal(p.e[3].kind, JOURNAL_LOST);
    assert_true(p.e[3].id > p.e[0].id && p.e[3].id == journal_newest(j));
    assert_true(value("brrd_journal_entries_total", "alarm_on") == 1);
    journal_stop(j);
    j = start(path, -1, -1); /* and after a restart */
    e = entry(JOURNAL_ALARM_ON, "icu-1", 0);
    journal_add(j, &e);
    e.number = 1;
    wait_for(j, journal_add(j, &e));
    assert_int_equal(read_some(path, &all, forward).n, 5);
    journal_stop(j);
}

static void an_entry_says_which_alarm_and_who(void **state) {
    const char *path = in_dir(state, "j.sqlite");
    struct journal *j = start(path, -1, -1);
    struct journal_entry e = entry(JOURNAL_ANSWERED, "icu-1", -1);
    e.live = true;
    journal_alarm_id("5e55", 25600, e.alarm);
    str_copy(e.person, sizeof e.person, "token:ana");
    e.step = 2;
    e.until_ms = 77;
    journal_add(j, &e);
    e.live = false;
    wait_for(j, journal_add(j, &e));
    struct page p = read_some(path, &all, forward);
    assert_string_equal(p.e[0].alarm, "5e55-25600");
    assert_string_equal(p.e[0].person, "token:ana");
    assert_true(p.e[0].step == 2 && p.e[0].until_ms == 77 && p.e[0].live && !p.e[1].live);
    journal_stop(j);
}

/* A journal of a version whose entries did not say whether they are of a live stream. */
static void an_old_journal_is_read_as_live(void **state) {
    const char *path = in_dir(state, "old.sqlite");
    struct db *db = NULL;
    struct db_query q;
    static const struct db_names names = {"journal", "journal.file"};
    static const struct db_column columns[] = {
        {"id", "INTEGER"},   {"kind", "TEXT"},    {"number", "INTEGER"}, {"received_ms", "INTEGER"}, {"sample_ms", "INTEGER"},
        {"start_s", "REAL"}, {"end_s", "REAL"},   {"value", "REAL"},     {"session", "TEXT"},        {"principal", "TEXT"},
        {"client", "TEXT"},  {"address", "TEXT"}, {"model", "TEXT"},     {"sha256", "TEXT"},         {"detail", "TEXT"}};
    assert_int_equal(db_open_named(path, &names, &db, NULL), 0);
    assert_int_equal(db_table(db, "journal", columns, sizeof columns / sizeof *columns, "id", NULL), 0);
    assert_int_equal(
        db_query(db, "INSERT INTO journal(kind, number, received_ms, session) VALUES('alarm_on', 0, 5, '5e55')", "write", &q, NULL),
        0);
    assert_int_equal(db_run(&q, NULL), 0);
    db_close(db);
    struct journal *j = start(path, -1, -1);
    struct journal_entry e = entry(JOURNAL_ALARM_ON, "icu-1", 512);
    wait_for(j, journal_add(j, &e));
    struct page p = read_some(path, &all, forward);
    assert_int_equal(p.n, 2);
    assert_true(p.e[0].live && !*p.e[0].alarm && !*p.e[0].person && !p.e[0].step && p.e[0].received_ms == 5);
    assert_false(p.e[1].live);
    journal_stop(j);
}

/* Of an entry of another boot only the wall clock says when it was; a reader may ask for what was made since this one. */
static void an_entry_keeps_the_clock_of_its_boot(void **state) {
    const char *path = in_dir(state, "j.sqlite");
    struct journal *j = start(path, -1, -1);
    for (int i = 0; i < 3; i++) {
        struct journal_entry e = entry(JOURNAL_ALARM_ON, "icu-1", i);
        e.received_ms = 1000 * (i + 1);
        e.boot_ms = 10 + i;
        wait_for(j, journal_add(j, &e));
    }
    journal_stop(j);
    struct db *db = NULL;
    struct db_query q;
    assert_int_equal(journaldb_open(path, &db, NULL), 0);
    assert_int_equal(db_query(db, "UPDATE journal SET made_boot = 'another' WHERE number = 0", "write", &q, NULL), 0);
    assert_int_equal(db_run(&q, NULL), 0);
    db_close(db);
    struct page p = read_some(path, &all, forward);
    assert_true(p.n == 3 && !p.e[0].boot_ms && p.e[1].boot_ms == 11 && p.e[2].boot_ms == 12);
    const struct journal_filter late = {.since_ms = 3000, .of_alarms = true};
    struct journal_filter f = late;
    assert_int_equal(read_some(path, &late, forward).n, 1);
    f.since_boot_ms = 11;
    p = read_some(path, &f, forward);
    assert_true(p.n == 2 && p.e[0].number == 1);
    f.since_boot_ms = 12;
    assert_int_equal(read_some(path, &f, forward).n, 1);
}

static void a_reader_gets_what_it_asks_for(void **state) {
    const char *path = in_dir(state, "j.sqlite");
    struct journal *j = start(path, -1, -1);
    const char *const clients[] = {"icu-1", "icu-2", "ward-1", "icu-2"};
    for (int i = 0; i < 4; i++) {
        struct journal_entry e = entry(i == 3 ? JOURNAL_EVENT : JOURNAL_GAP, clients[i], i);
        e.received_ms = 1000 * (i + 1);
        wait_for(j, journal_add(j, &e));
    }
    struct journal_filter f = {.client = "icu-*"};
    assert_int_equal(read_some(path, &f, forward).n, 3);
    f.kinds = 1u << JOURNAL_EVENT;
    assert_int_equal(read_some(path, &f, forward).n, 1);
    f = (struct journal_filter){.since_ms = 2000, .until_ms = 4000};
    assert_int_equal(read_some(path, &f, forward).n, 2);
    f = (struct journal_filter){.principal = "token:bob"};
    assert_int_equal(read_some(path, &f, forward).n, 1);
    f = (struct journal_filter){.session = "5e"};
    assert_int_equal(read_some(path, &f, forward).n, 4);
    f = (struct journal_filter){.session = "6"};
    assert_int_equal(read_some(path, &f, forward).n, 0);
    struct page p = read_some(path, &all, (struct journal_page){.most = 2, .newest_first = true});
    assert_int_equal(p.n, 2);
    assert_int_equal(p.e[0].kind, JOURNAL_EVENT);
    p = read_some(path, &all, (struct journal_page){.most = 64, .newest_first = true, .after = p.e[1].id});
    assert_int_equal(p.n, 2);
    assert_int_equal(p.e[1].number, 0);
    p = read_some(path, &all, (struct journal_page){.most = 64, .after = p.e[0].id});
    assert_int_equal(p.n, 2);
    atomic_bool stop = true;
    assert_int_equal(read_some(path, &all, (struct journal_page){.most = 64, .stop = &stop}).n, 0);
    journal_stop(j);
}

/* The clocks, shifted. */
static atomic_llong wall_shift_ms, boot_shift_ms;
int64_t __real_clock_wall_ms(void);
int64_t __wrap_clock_wall_ms(void);
int64_t __real_trusted_boot_ms(void);
int64_t __wrap_trusted_boot_ms(void);
int64_t __wrap_clock_wall_ms(void) { return __real_clock_wall_ms() + atomic_load(&wall_shift_ms); }
int64_t __wrap_trusted_boot_ms(void) { return __real_trusted_boot_ms() + atomic_load(&boot_shift_ms); }

static void add_many(struct journal *j, int n, int64_t age_ms, int *at) {
    for (int i = 0; i < n; i++) {
        struct journal_entry e = entry(JOURNAL_GAP, "icu-1", (*at)++);
        e.received_ms -= age_ms;
        wait_for(j, journal_add(j, &e));
    }
}

static void the_oldest_go_by_age_when_the_clock_is_steady(void **state) {
    enum { DAY_MS = 24 * 3600 * 1000, PRUNES = 512 };
    const char *path = in_dir(state, "j.sqlite");
    struct journal *j = start(path, 1800 * 1000, -1);
    int at = 0;
    add_many(j, 3, 3600 * 1000, &at);
    atomic_store(&wall_shift_ms, 400ll * DAY_MS); /* a step of the clock: everything looks old */
    add_many(j, PRUNES, 0, &at);
    assert_true(value("brrd_journal_entries_dropped_total", "age") == 0);
    atomic_store(&wall_shift_ms, 0);
    add_many(j, PRUNES, 0, &at);
    assert_true(value("brrd_journal_entries_dropped_total", "age") == 0);
    atomic_store(&wall_shift_ms, DAY_MS + 60000); /* a day later on both clocks */
    atomic_store(&boot_shift_ms, DAY_MS + 60000);
    add_many(j, PRUNES, 0, &at);
    for (int i = 0; value("brrd_journal_entries_dropped_total", "age") < 3; i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    journal_stop(j);
    atomic_store(&wall_shift_ms, 0);
    atomic_store(&boot_shift_ms, 0);
    assert_true(read_some(path, &all, forward).e[0].number >= 3);
}

static void the_oldest_go_by_size(void **state) {
    enum { MANY = 3000, MOST = 256 * 1024 };
    const char *path = in_dir(state, "j.sqlite");
    struct journal *j = start(path, -1, MOST);
    int64_t last = 0, bytes = 0;
    struct journal_entry holder = entry(JOURNAL_HOLDER, "icu-1", -1); /* who holds the bed is needed after the next restart */
    wait_for(j, journal_add(j, &holder));
    for (int i = 0; i < MANY; i++) {
        struct journal_entry e = entry(JOURNAL_QUALITY, "icu-1", i);
        memset(e.detail, 'x', 300);
        const int64_t number = journal_add(j, &e);
        if (!number)
            wait_for(j, last);
        i -= !number;
        last = number ? number : last;
    }
    wait_for(j, last);
    journal_stop(j); /* the last deletion has ended */
    struct db *db;
    assert_int_equal(journaldb_open(path, &db, NULL), 0);
    assert_int_equal(journaldb_bytes(db, &bytes, NULL), 0);
    assert_true(bytes <= MOST + 512 * 400); /* it is looked at after every 512 entries */
    db_close(db);
    struct page p = read_some(path, &all, (struct journal_page){.most = 1, .newest_first = true});
    assert_int_equal(p.e[0].number, MANY - 1);
    assert_true(value("brrd_journal_entries_dropped_total", "size") > MANY / 2);
    const struct journal_filter holders = {.kinds = 1u << JOURNAL_HOLDER, .of_alarms = true};
    assert_int_equal(read_some(path, &holders, forward).n, 1);
}

/* The file cannot be made until its folder is there: entries wait in memory, the oldest first, and beyond JOURNAL_STREAM_OTHERS of
 * a stream the newest are dropped and counted. */
static void entries_wait_for_a_volume_that_cannot_be_written(void **state) {
    enum { MANY = 200 };
    char folder[4096], path[4200];
    str_copy(folder, sizeof folder, in_dir(state, "later"));
    str_format(path, sizeof path, "%s/j.sqlite", folder);
    struct journal *j = start(path, -1, -1);
    int64_t last = 0, kept = 0;
    for (int i = 0; i < MANY; i++) {
        struct journal_entry e = entry(JOURNAL_GAP, "icu-1", i);
        int64_t number = journal_add(j, &e);
        kept += number > 0;
        last = number ? number : last;
    }
    assert_int_equal(kept, JOURNAL_STREAM_OTHERS);
    assert_true(value("brrd_journal_entries_dropped_total", "queue") == (double)(MANY - kept));
    for (int i = 0; !journal_is_failing(j); i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_false(journal_has(j, last));
    assert_int_equal(mkdir(folder, 0700), 0);
    wait_for(j, last);
    assert_false(journal_is_failing(j));
    assert_true(value("brrd_journal_write_errors_total", "") >= 1);
    struct page p = read_some(path, &all, forward);
    for (int i = 0; i < 64; i++)
        assert_int_equal(p.e[i].number, i);
    journal_stop(j);
}

/* A disk that takes writes and never answers fsync: SQLite calls these. */
static atomic_bool disk_hangs;
static int sync_file(void) {
    while (atomic_load(&disk_hangs))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return 0;
}
__attribute__((visibility("default"))) int fsync(int fd);
__attribute__((visibility("default"))) int fdatasync(int fd);
int fsync(int fd) { return (void)fd, sync_file(); }
int fdatasync(int fd) { return (void)fd, sync_file(); }

static void a_flood_of_one_stream_costs_no_alarm_of_another(void **state) {
    enum { FLOOD = 20000, ALARMS = 300 };
    const char *path = in_dir(state, "j.sqlite");
    struct journal *j = start(path, -1, -1);
    struct journal_entry first = entry(JOURNAL_OPENED, "icu-1", 0);
    int64_t last = 0;
    wait_for(j, journal_add(j, &first));
    atomic_store(&disk_hangs, true);
    for (int i = 0; i < FLOOD; i++) {
        struct journal_entry gap = entry(JOURNAL_GAP, "flood", i), alarm = entry(JOURNAL_ALARM_ON, "icu-1", i);
        str_copy(gap.session, sizeof gap.session, "f100d");
        journal_add(j, &gap);
        if (i % (FLOOD / ALARMS) == 0)
            assert_true((last = journal_add(j, &alarm)) > 0);
    }
    for (int i = 0; !journal_is_failing(j); i++) { /* though no call has failed */
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    atomic_store(&disk_hangs, false);
    wait_for(j, last);
    assert_false(journal_is_failing(j));
    assert_true(value("brrd_journal_entries_total", "alarm_on") >= ALARMS);
    assert_true(value("brrd_journal_entries_dropped_total", "queue") >= FLOOD - 2 * JOURNAL_STREAM_OTHERS - 256);
    journal_tick(j);
    assert_true(journal_stop(j));
    struct journal_filter f = {.kinds = 1u << JOURNAL_GAP};
    struct page p = read_some(path, &f, forward);
    assert_true(p.n > 0 && p.n <= 64);
}

/* A receiver of alarms that keeps what it is offered. */
struct receiver {
    struct journal_line *lines[64];
    int early; /* lines that might be told before all that is owed was offered */
    atomic_int n;
};
static const char *receiver_name(void *ctx, int i) { return (void)ctx, i ? "?" : "pager"; }
static bool receiver_wants(void *ctx, int i, const struct journal_entry *e) {
    return (void)ctx, (void)i, e->kind == JOURNAL_ALARM_ON;
}
static void receiver_offer(void *ctx, int i, struct journal_line *line) {
    struct receiver *r = ctx;
    assert_int_equal(i, 0);
    assert_true(atomic_load(&r->n) < 64);
    r->lines[r->n] = journal_line_hold(line);
    r->early += atomic_load(&line->state) != LINE_WAITS || !line->again;
    atomic_fetch_add(&r->n, 1);
}
static void receiver_written(void *ctx) { (void)ctx; }
static void receiver_done(struct receiver *r) {
    for (; r->n; r->n--)
        journal_line_drop(r->lines[r->n - 1]);
}

static struct journal *start_with(const char *path, struct receiver *r, struct outlet *outlet) {
    struct journal *j = NULL;
    *outlet = (struct outlet){
        .ctx = r, .n = 1, .name = receiver_name, .wants = receiver_wants, .offer = receiver_offer, .written = receiver_written};
    const struct journal_config config = {.path = path, .keep_ms = -1, .max_bytes = -1, .outlet = outlet};
    assert_int_equal(journal_start(&config, &j, NULL), 0);
    return j;
}

static void wait_until(const atomic_int *n, int want) {
    for (int i = 0; atomic_load(n) < want; i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static int state_of(const struct receiver *r, int i) { return atomic_load(&r->lines[i]->state); }

static void a_receiver_is_offered_each_entry_until_it_is_done(void **state) {
    const char *path = in_dir(state, "j.sqlite");
    struct receiver r = {.n = 0};
    struct outlet outlet;
    struct journal *j = start_with(path, &r, &outlet);
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        struct journal_entry e = entry(i == 1 ? JOURNAL_ALARM_OFF : JOURNAL_ALARM_ON, "icu-1", 256 * (i / 2));
        journal_add(j, &e);
        last = journal_add_again(j, &e); /* the same alarm, as after a restore */
    }
    assert_int_equal(r.n, 4); /* at once, whatever the disk does */
    assert_true(r.lines[1]->again && !r.lines[0]->again);
    wait_for(j, last);
    assert_true(state_of(&r, 0) == LINE_WRITTEN && state_of(&r, 1) == LINE_KNOWN);
    assert_true(state_of(&r, 2) == LINE_WRITTEN && state_of(&r, 3) == LINE_KNOWN);
    journal_told(j, "pager", &r.lines[0]->entry, "delivered");
    struct journal_entry answer = entry(JOURNAL_ANSWERED, "icu-1", -1);
    str_copy(answer.alarm, sizeof answer.alarm, r.lines[2]->entry.alarm);
    str_copy(answer.detail, sizeof answer.detail, "acknowledge via page");
    journal_add(j, &answer);
    assert_true(journal_stop(j));
    struct page p = read_some(path, &all, forward);
    assert_int_equal(p.n, 5);
    assert_int_equal(p.e[3].kind, JOURNAL_TOLD);
    assert_string_equal(p.e[3].person, "pager");
    assert_string_equal(p.e[3].detail, "alarm_on: delivered");
    char id[LINE_DELIVERY], again[LINE_DELIVERY];
    outlet_id("pager", &r.lines[2]->entry, id);
    receiver_done(&r);
    struct receiver later = {.n = 0};
    j = start_with(path, &later, &outlet); /* what is not done comes again, with the same id */
    wait_until(&later.n, 1);
    outlet_id("pager", &later.lines[0]->entry, again);
    assert_string_equal(again, id);
    assert_true(later.lines[0]->answered); /* before the restart */
    journal_told(j, "pager", &later.lines[0]->entry, "delivered");
    assert_true(journal_stop(j));
    assert_int_equal(later.n, 1);
    assert_int_equal(later.early, 0);
    assert_int_equal(state_of(&later, 0), LINE_WRITTEN);
    receiver_done(&later);
    j = start_with(path, &later, &outlet);
    struct journal_entry e = entry(JOURNAL_GAP, "icu-1", 1);
    wait_for(j, journal_add(j, &e));
    assert_true(journal_stop(j));
    assert_int_equal(later.n, 0);
}

/* Who was reached by an alarm, its steps and its end has a row; messages about equipment have none. */
static void what_people_were_told_of_an_alarm_has_a_row(void **state) {
    static const struct {
        enum journal_kind kind;
        const char *row;
    } all_told[] = {{JOURNAL_ALARM_ON, "alarm_on: delivered"},
                    {JOURNAL_ESCALATED, "escalated: delivered"},
                    {JOURNAL_ESCALATED, "escalated: delivered"},
                    {JOURNAL_ALARM_OFF, "alarm_off: delivered"},
                    {JOURNAL_TECHNICAL_ON, NULL}};
    const char *path = in_dir(state, "j.sqlite");
    struct journal *j = start(path, -1, -1);
    for (int i = 0; i < 5; i++) {
        struct journal_entry e = entry(all_told[i].kind, "icu-1", -1);
        e.step = i < 3 ? i : 0;
        journal_told(j, "doctor", &e, "delivered");
    }
    assert_true(journal_stop(j));
    struct page p = read_some(path, &all, forward);
    assert_int_equal(p.n, 4);
    for (int i = 0; i < p.n; i++) {
        assert_int_equal(p.e[i].kind, JOURNAL_TOLD);
        assert_string_equal(p.e[i].person, "doctor");
        assert_string_equal(p.e[i].detail, all_told[i].row);
        assert_int_equal(p.e[i].step, i < 3 ? i : 0);
    }
}

static void a_step_of_the_clock_gives_up_no_delivery(void **state) {
    const char *path = in_dir(state, "j.sqlite");
    struct receiver r = {.n = 0}, later = {.n = 0};
    struct outlet outlet;
    struct journal *j = start_with(path, &r, &outlet);
    struct journal_entry e = entry(JOURNAL_ALARM_ON, "icu-1", 1);
    wait_for(j, journal_add(j, &e));
    atomic_store(&wall_shift_ms, 400ll * 24 * 3600 * 1000);
    for (int i = 0; i < 2 * 512; i++) { /* the outbox is looked at after so many entries */
        e = entry(JOURNAL_GAP, "icu-1", i);
        wait_for(j, journal_add(j, &e));
    }
    assert_true(journal_stop(j));
    receiver_done(&r);
    j = start_with(path, &later, &outlet);
    wait_until(&later.n, 1);
    assert_true(clock_ms() - later.lines[0]->made_ms < 3600 * 1000); /* as old as it is */
    assert_true(journal_stop(j));
    receiver_done(&later);
    atomic_store(&boot_shift_ms, 26ll * 3600 * 1000); /* truly late: its receiver is gone */
    j = start_with(path, &later, &outlet);
    wait_until(&later.n, 1);
    for (int i = 0; i < 2 * 512; i++) {
        e = entry(JOURNAL_GAP, "icu-1", 5000 + i);
        wait_for(j, journal_add(j, &e));
    }
    assert_true(journal_stop(j));
    receiver_done(&later);
    atomic_store(&wall_shift_ms, 0);
    j = start_with(path, &later, &outlet);
    e = entry(JOURNAL_GAP, "icu-1", 9999);
    wait_for(j, journal_add(j, &e));
    assert_int_equal(later.n, 0);
    assert_true(journal_stop(j));
    atomic_store(&boot_shift_ms, 0);
}

/* The machine was without power for six hours: another boot, whose clock knows nothing of the time before. */
static void after_another_boot_an_age_is_what_the_wall_clock_says(void **state) {
    const char *path = in_dir(state, "j.sqlite");
    struct receiver r = {.n = 0}, later = {.n = 0};
    struct outlet outlet;
    struct journal *j = start_with(path, &r, &outlet);
    struct journal_entry e = entry(JOURNAL_ALARM_ON, "icu-1", 1);
    e.received_ms = clock_wall_ms();
    wait_for(j, journal_add(j, &e));
    assert_true(journal_stop(j));
    receiver_done(&r);
    struct db *db = NULL;
    struct db_query q;
    assert_int_equal(journaldb_open(path, &db, NULL), 0);
    assert_int_equal(db_query(db, "UPDATE outbox SET boot = 'another'", "write", &q, NULL), 0);
    assert_int_equal(db_run(&q, NULL), 0);
    db_close(db);
    atomic_store(&wall_shift_ms, 6ll * 3600 * 1000);
    j = start_with(path, &later, &outlet);
    wait_until(&later.n, 1);
    assert_true(clock_ms() - later.lines[0]->made_ms >= 6ll * 3600 * 1000);
    assert_true(journal_stop(j));
    receiver_done(&later);
    atomic_store(&wall_shift_ms, 0);
}

/* The volume is not there at the start: what is owed is offered when it comes, though nothing new happens. */
static void what_is_owed_is_offered_when_the_file_can_be_opened(void **state) {
    struct receiver r = {.n = 0};
    struct outlet outlet;
    char folder[512], away[600], path[600];
    str_copy(folder, sizeof folder, in_dir(state, "volume"));
    str_format(away, sizeof away, "%s-away", folder);
    str_format(path, sizeof path, "%s/j.sqlite", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    struct journal *j = start_with(path, &r, &outlet);
    struct journal_entry e = entry(JOURNAL_ALARM_ON, "icu-1", 1);
    wait_for(j, journal_add(j, &e));
    assert_true(journal_stop(j));
    receiver_done(&r);
    assert_int_equal(rename(folder, away), 0);
    j = start_with(path, &r, &outlet);
    for (int i = 0; !journal_is_failing(j); i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(r.n, 0);
    assert_int_equal(rename(away, folder), 0);
    wait_until(&r.n, 1);
    assert_true(journal_stop(j));
    receiver_done(&r);
}

static void a_receiver_does_not_wait_for_a_dropped_entry(void **state) {
    struct receiver r = {.n = 0};
    struct outlet outlet;
    struct journal *j = start_with(in_dir(state, "never/j.sqlite"), &r, &outlet);
    struct journal_entry e = entry(JOURNAL_GAP, "icu-1", 0);
    int64_t number = 1;
    for (int i = 0; number; i++) {
        e = entry(JOURNAL_ALARM_OFF, "icu-1", i);
        assert_true(i <= JOURNAL_STREAM_ALARMS);
        number = journal_add(j, &e);
    }
    e = entry(JOURNAL_ALARM_ON, "icu-1", 5);
    assert_int_equal(journal_add(j, &e), 0);
    assert_int_equal(r.n, 1);
    assert_int_equal(state_of(&r, 0), LINE_WRITTEN);
    journal_stop(j);
    receiver_done(&r);
}

/* The journal shrinks by the entries of whoever has most, and its alarms go last. */
static void who_has_most_makes_room(void **state) {
    enum { MANY = 6000, MOST = 1 << 20 };
    const char *path = in_dir(state, "j.sqlite");
    struct journal *j = start(path, -1, MOST);
    int64_t last = 0;
    for (int i = 0; i < MANY; i++) {
        struct journal_entry e = entry(i == 1 ? JOURNAL_ALARM_ON : JOURNAL_QUALITY, i % 100 ? "flood" : "icu-1", i);
        memset(e.detail, 'x', 400);
        const int64_t number = journal_add(j, &e);
        if (!number)
            wait_for(j, last);
        i -= !number;
        last = number ? number : last;
    }
    wait_for(j, last);
    journal_stop(j);
    assert_true(value("brrd_journal_entries_dropped_total", "size") > 1000);
    struct page p = read_some(path, &(struct journal_filter){.client = "icu-1"}, forward);
    assert_int_equal(p.n, MANY / 100);
    p = read_some(path, &(struct journal_filter){.kinds = 1u << JOURNAL_ALARM_ON}, forward);
    assert_int_equal(p.n, 1);
}

/* The entries of a caller are found by an index, not among those of all others. */
static void the_entries_of_a_caller_are_read_by_index(void **state) {
    const char *path = in_dir(state, "j.sqlite");
    struct journal *j = start(path, -1, -1);
    struct journal_entry e = entry(JOURNAL_GAP, "icu-1", 1);
    struct db *db = NULL;
    struct db_query q;
    bool row = false, indexed = false;
    wait_for(j, journal_add(j, &e));
    assert_int_equal(journaldb_open_reader(path, &db, NULL), 0);
    assert_int_equal(db_query(db,
                              "EXPLAIN QUERY PLAN SELECT " JOURNALDB_ROW " FROM journal WHERE id > 0 AND +received_ms >= 0 AND "
                              "+received_ms < 9 AND principal = 'token:bob' ORDER BY id ASC",
                              "explain", &q, NULL),
                     0);
    while (!db_next(&q, &row, NULL) && row) {
        indexed |= strstr(db_text(&q, 3), "journal_principal") != NULL;
        assert_null(strstr(db_text(&q, 3), "TEMP B-TREE"));
    }
    db_done(&q);
    assert_true(indexed);
    db_close(db);
    journal_stop(j);
}

static void what_was_not_written_at_the_stop_is_counted(void **state) {
    struct journal *j = start(in_dir(state, "never/j.sqlite"), -1, -1);
    struct journal_entry e = entry(JOURNAL_GAP, "icu-1", 1);
    assert_true(journal_add(j, &e) > 0);
    journal_stop(j);
    assert_true(value("brrd_journal_entries_dropped_total", "volume") == 1);
}

/* A volume of 48 MiB at `dir`, in a mount namespace of this program without other threads; false: not here. */
static bool mount_small(const char *dir, const char *kind) {
    char command[1200];
    const uid_t uid = geteuid();
    const bool is_ext4 = !strcmp(kind, "ext4");
    static bool alone;
    if (mkdir(dir, 0700) || (!alone && unshare(CLONE_NEWNS | (uid && !is_ext4 ? CLONE_NEWUSER : 0))))
        return false;
    alone = true;
    if (!is_ext4)
        return !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) && !mount("none", dir, "tmpfs", 0, "size=48m");
    str_format(command, sizeof command, "truncate -s 48M %s.img && mkfs.ext4 -q -F %s.img && mount -o loop %s.img %s", dir, dir,
               dir, dir);
    return !uid && !system(command); // NOLINT(cert-env33-c): a test
}

static void fill(const char *path) {
    OWNED_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const int64_t free_bytes = fsio_free_bytes(path);
    for (int64_t n = free_bytes, at = 0; n >= 4096;)
        if (posix_fallocate(fd, at, n))
            n /= 2;
        else
            at += n;
}

static void check_full_volume(void **state, const char *kind) {
    char path[600], filler[600];
    const char *dir = in_dir(state, kind);
    if (!mount_small(dir, kind)) {
        print_message("not tried: %s, which cannot be mounted here\n", kind);
        return;
    }
    str_format(path, sizeof path, "%s/j.sqlite", dir);
    str_format(filler, sizeof filler, "%s/filler", dir);
    struct journal *j = start(path, -1, -1);
    for (struct stat file = {0}; file.st_size < 4 << 20; (void)stat(path, &file))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    fill(filler);
    int64_t number = 0;
    for (int i = 0; i < 12; i++) {
        struct journal_entry e = entry(JOURNAL_ALARM_ON, "icu-1", i);
        number = journal_add(j, &e);
    }
    wait_for(j, number);
    for (int i = 0; i < 16000; i++) { /* twice what the file has room for */
        struct journal_entry e = entry(JOURNAL_GAP, "icu-2", i);
        str_format(e.session, sizeof e.session, "%d", i);
        memset(e.detail, 'x', sizeof e.detail - 1);
        number = journal_add(j, &e);
        if (i % 1000 == 999)
            wait_for(j, number);
    }
    assert_true(value("brrd_journal_write_errors_total", "") == 0);
    assert_true(value("brrd_journal_entries_dropped_total", "size") > 0);
    assert_int_equal(read_some(path, &(struct journal_filter){.kinds = 1u << JOURNAL_ALARM_ON}, forward).n, 12);
    journal_stop(j);
    assert_int_equal(umount(dir), 0);
}

static void on_a_full_volume_the_oldest_make_room_in_time(void **state) {
    check_full_volume(state, "tmpfs");
    check_full_volume(state, "ext4");
}

static int done(void **state) {
    (void)state;
    metrics_free(metrics);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(entries_come_back_in_order_and_once),
        in_temp_dir(an_entry_says_which_alarm_and_who),
        in_temp_dir(an_old_journal_is_read_as_live),
        in_temp_dir(an_entry_keeps_the_clock_of_its_boot),
        in_temp_dir(a_reader_gets_what_it_asks_for),
        in_temp_dir(the_oldest_go_by_age_when_the_clock_is_steady),
        in_temp_dir(the_oldest_go_by_size),
        in_temp_dir(entries_wait_for_a_volume_that_cannot_be_written),
        in_temp_dir(a_flood_of_one_stream_costs_no_alarm_of_another),
        in_temp_dir(a_receiver_is_offered_each_entry_until_it_is_done),
        in_temp_dir(what_people_were_told_of_an_alarm_has_a_row),
        in_temp_dir(a_step_of_the_clock_gives_up_no_delivery),
        in_temp_dir(after_another_boot_an_age_is_what_the_wall_clock_says),
        in_temp_dir(what_is_owed_is_offered_when_the_file_can_be_opened),
        in_temp_dir(a_receiver_does_not_wait_for_a_dropped_entry),
        in_temp_dir(who_has_most_makes_room),
        in_temp_dir(the_entries_of_a_caller_are_read_by_index),
        in_temp_dir(on_a_full_volume_the_oldest_make_room_in_time),
        in_temp_dir(what_was_not_written_at_the_stop_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, done);
}
