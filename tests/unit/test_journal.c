/* journal: entries come back in order and once, the oldest go by age and size, a volume that cannot be written loses nothing that
 * fits into memory, and a reader sees what it asks for. */
#include "daemon/journal/journal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "daemon/journal/journaldb.h"
#include "unit/temp_dir.h"

static const struct metric_family families[] = {
    {"brrd_journal_entries_total", METRIC_COUNTER, "Written.", "kind", NULL, 0},
    {"brrd_journal_entries_dropped_total", METRIC_COUNTER, "Dropped.", "reason", NULL, 0},
    {"brrd_journal_write_errors_total", METRIC_COUNTER, "Errors.", "", NULL, 0},
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

static void the_oldest_go_by_age(void **state) {
    const char *path = in_dir(state, "j.sqlite");
    struct journal *j = start(path, -1, -1);
    for (int i = 0; i < 5; i++) {
        struct journal_entry e = entry(JOURNAL_GAP, "icu-1", i);
        e.received_ms -= i < 3 ? 3600 * 1000 : 0;
        wait_for(j, journal_add(j, &e));
    }
    journal_stop(j);
    j = start(path, 1800 * 1000, -1);
    for (int i = 0; value("brrd_journal_entries_dropped_total", "age") < 3; i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    struct page p = read_some(path, &all, forward);
    assert_int_equal(p.n, 2);
    assert_int_equal(p.e[0].number, 3);
    journal_stop(j);
}

static void the_oldest_go_by_size(void **state) {
    enum { MANY = 3000, MOST = 256 * 1024 };
    const char *path = in_dir(state, "j.sqlite");
    struct journal *j = start(path, -1, MOST);
    int64_t last = 0, bytes = 0;
    for (int i = 0; i < MANY; i++) {
        struct journal_entry e = entry(JOURNAL_QUALITY, "icu-1", i);
        memset(e.detail, 'x', 300);
        last = journal_add(j, &e);
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
}

/* The file cannot be made until its folder is there: entries wait in memory, the oldest first, and beyond JOURNAL_WAITING the
 * newest are dropped and counted. */
static void entries_wait_for_a_volume_that_cannot_be_written(void **state) {
    enum { MANY = 12000 };
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
    assert_true(kept >= JOURNAL_WAITING && kept < MANY);
    assert_true(value("brrd_journal_entries_dropped_total", "queue") == (double)(MANY - kept));
    for (int i = 0; !journal_is_failing(j); i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_false(journal_has(j, 1));
    assert_int_equal(mkdir(folder, 0700), 0);
    wait_for(j, last);
    assert_false(journal_is_failing(j));
    assert_true(value("brrd_journal_write_errors_total", "") >= 1);
    struct page p = read_some(path, &all, forward);
    for (int i = 0; i < 64; i++)
        assert_int_equal(p.e[i].number, i);
    journal_stop(j);
}

/* A receiver of alarms that keeps what it gets, as long as it has room. */
struct receiver {
    char ids[8][OUTLET_ID];
    int64_t rows[8];
    atomic_int n;
    atomic_int room, refused;
};
static const char *receiver_name(void *ctx, int i) { return (void)ctx, i ? "?" : "pager"; }
static bool receiver_wants(void *ctx, int i, const struct journal_entry *e) {
    return (void)ctx, (void)i, e->kind == JOURNAL_ALARM_ON;
}
static char *receiver_body(void *ctx, int i, const struct journal_entry *e, const char *id) {
    return (void)ctx, (void)i, (void)e, strdup(id);
}
static int receiver_room(void *ctx, int i) { return (void)i, atomic_load(&((struct receiver *)ctx)->room); }
static bool receiver_post(void *ctx, int i, struct delivery *d) {
    struct receiver *r = ctx;
    int n = atomic_load(&r->n);
    assert_int_equal(i, 0);
    if (!atomic_load(&r->room)) {
        atomic_fetch_add(&r->refused, 1);
        return false;
    }
    assert_true(n < 8);
    assert_string_equal(d->body, d->id);
    str_copy(r->ids[n], sizeof r->ids[n], d->id);
    r->rows[n] = d->outbox;
    delivery_free(d);
    atomic_fetch_sub(&r->room, 1);
    atomic_fetch_add(&r->n, 1);
    return true;
}

static struct journal *start_with(const char *path, struct receiver *r, struct outlet *outlet) {
    struct journal *j = NULL;
    *outlet = (struct outlet){.ctx = r,
                              .n = 1,
                              .name = receiver_name,
                              .wants = receiver_wants,
                              .body = receiver_body,
                              .room = receiver_room,
                              .post = receiver_post};
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

static void a_receiver_gets_each_new_entry_until_it_is_done(void **state) {
    const char *path = in_dir(state, "j.sqlite");
    struct receiver r = {.room = 2};
    struct outlet outlet;
    struct journal *j = start_with(path, &r, &outlet);
    for (int i = 0; i < 3; i++) {
        struct journal_entry e = entry(i == 1 ? JOURNAL_ALARM_OFF : JOURNAL_ALARM_ON, "icu-1", i / 2);
        journal_add(j, &e);
        journal_add(j, &e); /* the same alarm is told once */
    }
    wait_until(&r.n, 2);
    journal_delivered(j, r.rows[0]);
    assert_true(journal_stop(j));
    assert_int_equal(r.n, 2);
    struct receiver later = {.room = 8};
    j = start_with(path, &later, &outlet); /* what is not done comes again, with the same id */
    wait_until(&later.n, 1);
    assert_string_equal(later.ids[0], r.ids[1]);
    journal_delivered(j, later.rows[0]);
    assert_true(journal_stop(j));
    assert_int_equal(later.n, 1);
    later = (struct receiver){.room = 8};
    j = start_with(path, &later, &outlet);
    struct journal_entry e = entry(JOURNAL_GAP, "icu-1", 1);
    wait_for(j, journal_add(j, &e));
    assert_true(journal_stop(j));
    assert_int_equal(later.n, 0);
}

static void a_receiver_gets_what_comes_when_nothing_waits_any_more(void **state) {
    struct receiver r = {.room = 8};
    struct outlet outlet;
    struct journal *j = start_with(in_dir(state, "j.sqlite"), &r, &outlet);
    for (int i = 0; i < 3; i++) {
        struct journal_entry e = entry(JOURNAL_ALARM_ON, "icu-1", i);
        journal_add(j, &e);
        wait_until(&r.n, i + 1);
        journal_delivered(j, r.rows[i]);
        e = entry(JOURNAL_GAP, "icu-1", i);
        wait_for(j, journal_add(j, &e)); /* the outbox is empty */
    }
    assert_true(r.rows[0] < r.rows[1] && r.rows[1] < r.rows[2]);
    assert_true(journal_stop(j));
}

static void a_receiver_does_not_wait_for_a_journal_that_cannot_be_written(void **state) {
    char folder[512], path[600];
    str_copy(folder, sizeof folder, in_dir(state, "later"));
    str_format(path, sizeof path, "%s/j.sqlite", folder);
    struct receiver r = {.room = 8};
    struct outlet outlet;
    struct journal *j = start_with(path, &r, &outlet);
    struct journal_entry e = entry(JOURNAL_ALARM_ON, "icu-1", 1);
    int64_t number = journal_add(j, &e);
    wait_until(&r.n, 1);
    assert_int_equal(r.rows[0], 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    wait_for(j, number);
    assert_true(journal_stop(j));
    assert_int_equal(r.n, 1); /* not a second time through the outbox */
}

static void a_receiver_without_room_gets_the_entry_through_the_outbox(void **state) {
    char folder[512], path[600];
    str_copy(folder, sizeof folder, in_dir(state, "later"));
    str_format(path, sizeof path, "%s/j.sqlite", folder);
    struct receiver r = {.room = 1};
    struct outlet outlet;
    struct journal *j = start_with(path, &r, &outlet);
    struct journal_entry e = entry(JOURNAL_ALARM_ON, "icu-1", 1);
    journal_add(j, &e);
    e.number = 2;
    int64_t number = journal_add(j, &e);
    wait_until(&r.refused, 1); /* the first one was taken, the second one was not */
    assert_int_equal(r.n, 1);
    assert_int_equal(mkdir(folder, 0700), 0);
    wait_for(j, number);
    atomic_store(&r.room, 4);
    wait_until(&r.n, 2);
    assert_int_equal(r.rows[0], 0);
    assert_true(r.rows[1] > 0);
    assert_true(journal_stop(j));
    assert_int_equal(r.n, 2);
}

static void what_was_not_written_at_the_stop_is_counted(void **state) {
    struct journal *j = start(in_dir(state, "never/j.sqlite"), -1, -1);
    struct journal_entry e = entry(JOURNAL_GAP, "icu-1", 1);
    assert_int_equal(journal_add(j, &e), 1);
    journal_stop(j);
    assert_true(value("brrd_journal_entries_dropped_total", "volume") == 1);
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
        in_temp_dir(a_reader_gets_what_it_asks_for),
        in_temp_dir(the_oldest_go_by_age),
        in_temp_dir(the_oldest_go_by_size),
        in_temp_dir(entries_wait_for_a_volume_that_cannot_be_written),
        in_temp_dir(a_receiver_gets_each_new_entry_until_it_is_done),
        in_temp_dir(a_receiver_gets_what_comes_when_nothing_waits_any_more),
        in_temp_dir(a_receiver_does_not_wait_for_a_journal_that_cannot_be_written),
        in_temp_dir(a_receiver_without_room_gets_the_entry_through_the_outbox),
        in_temp_dir(what_was_not_written_at_the_stop_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, done);
}
