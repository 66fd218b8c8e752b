#include "base/log.h"
#include "unit/session_fixture.h"

/* The monotonic clock is ahead by so much. */
static int64_t later_ms;
int64_t __real_clock_ms(void);
int64_t __wrap_clock_ms(void);
int64_t __wrap_clock_ms(void) { return __real_clock_ms() + later_ms; }

/* ---- snapshots ---- */

/* The snapshot store's side: the newest snapshot it was given. */
struct kept {
    char id[SESSION_ID_SIZE], *state;
    size_t len;
    int puts, ends, drops, rejects, retries;
};
static bool put(void *ctx, const struct session_snapshot *snapshot) {
    struct kept *k = ctx;
    free(k->state);
    k->state = snapshot->state;
    k->len = snapshot->len;
    k->puts++;
    str_copy(k->id, sizeof k->id, snapshot->id);
    return true;
}
static void end(void *ctx, const char *id) { (void)id, ((struct kept *)ctx)->ends++; }
static void drop(void *ctx, const char *id) { (void)id, ((struct kept *)ctx)->drops++; }
static void reject(void *ctx, const char *id) { (void)id, ((struct kept *)ctx)->rejects++; }

static void retry(void *ctx, const char *id, bool ended) { (void)id, (void)ended, ((struct kept *)ctx)->retries++; }

enum { CHOSEN = 3 /* the device of a stream that names none */ };
struct kept_bench {
    struct bench b;
    struct kept kept;
    int refusal; /* what the devices say of a stream that names one */
};

static int place(void *ctx, const char *device_name, const char *model, int *ret, struct err *err) {
    (void)model;
    if (*device_name)
        return err_set(err, ((struct kept_bench *)ctx)->refusal, "not on %s", device_name);
    *ret = CHOSEN;
    return 0;
}

static struct sessions *keeping_sessions(struct kept_bench *k) {
    const struct sessions_config config = {
        .post = take,
        .post_ctx = &k->b.worker,
        .place = place,
        .place_ctx = k,
        .metrics = k->b.metrics,
        .max_sessions = 2,
        .resume_ttl_ms = 3600 * 1000,
        .max_waiting_bytes = 16384,
        .store = {.put = put, .end = end, .drop = drop, .reject = reject, .retry = retry, .ctx = &k->kept}};
    return sessions_new(&config);
}

static int set_up_store(void **state) {
    struct kept_bench *k = calloc(1, sizeof *k);
    k->b.metrics = metrics_new(families, sizeof families / sizeof *families, 16);
    k->b.all = keeping_sessions(k);
    *state = k;
    return k->b.all ? 0 : -1;
}

static int tear_down_store(void **state) {
    free(((struct kept_bench *)*state)->kept.state);
    return tear_down(state);
}

/* The worker's part of a snapshot. */
static void save(struct kept_bench *k, struct live_stream *stream, const char *part) {
    struct live_report r = report(stream, LIVE_SAVED);
    r.state = strdup(part);
    r.state_len = strlen(part);
    sessions_report(k->b.all, &r);
    free(r.state);
}

static void durable(struct kept_bench *k, int code) {
    struct err err = {.code = code};
    sessions_kept(k->b.all, k->kept.id, &err);
}

static void opened_comes_when_the_first_snapshot_is_durable(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    open_lasting(&k->b, &stream, token);
    assert_int_equal(last(&k->b)->message.kind, LIVE_SAVE);
    assert_int_equal(k->b.owner.opened, 0);
    save(k, stream, "first");
    assert_int_equal(k->kept.puts, 1);
    assert_int_equal(k->b.owner.opened, 0);
    assert_null(memmem(k->kept.state, k->kept.len, token, strlen(token))); /* its digest alone is kept */
    durable(k, 0);
    assert_int_equal(k->b.owner.opened, 1);
}

static void a_disk_that_is_full_opens_the_stream_and_promises_nothing(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *stream;
    struct session_counts counts;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(&k->b, &stream, token);
    save(k, stream, "first");
    durable(k, ERR_EXHAUSTED);
    assert_int_equal(k->b.owner.opened, 1);
    assert_int_equal(push(s, 0, 10), 0);
    consume(&k->b, stream, 10, 10 * CHANNELS * WIDTH);
    session_counts(s, &counts);
    assert_int_equal(counts.durable_through, 0);
}

static const struct live_open live = {.checkpoint = "/m",
                                      .model = "ward",
                                      .labels = labels,
                                      .n_labels = CHANNELS,
                                      .rate_hz = RATE,
                                      .format = LIVE_F32_UV,
                                      .realtime = true};
static const struct session_request bed = {.open = &live, .principal = "uid:1", .resumable = true};

static struct session *open_bed(struct kept_bench *k, struct live_stream **ret_stream) {
    struct session *s = NULL;
    assert_int_equal(session_open(k->b.all, &bed, &sink, &k->b.owner, &s, NULL), 0);
    *ret_stream = last(&k->b)->stream;
    struct live_report r = report(*ret_stream, LIVE_OPENED);
    sessions_report(k->b.all, &r);
    return s;
}

static void tick_after(struct kept_bench *k, int64_t ms) {
    later_ms += ms;
    sessions_tick(k->b.all, 1000);
}

static struct session_counts counts_of(const struct session *s) {
    struct session_counts counts;
    session_counts(s, &counts);
    return counts;
}

static void a_live_stream_goes_on_when_its_snapshots_fail(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *stream;
    struct session *s = open_bed(k, &stream);
    for (int i = 0; i < SESSION_SAVE_FAILURES; i++) {
        assert_false(counts_of(s).unsaved);
        save(k, stream, "state");
        durable(k, ERR_EXHAUSTED);
        assert_int_equal(push(s, 10 * i, 10), 0);
        consume(&k->b, stream, 10, 10 * CHANNELS * WIDTH);
        assert_int_equal(counts_of(s).durable_through, 0);
        tick_after(k, 2000);
        assert_int_equal(count_orders(&k->b, LIVE_SAVE), i + 2); /* tried again */
    }
    assert_true(counts_of(s).unsaved);
    assert_int_equal(counts_of(s).durable_through, 30);
    assert_int_equal(sessions_unsaved(k->b.all), 1);
    save(k, stream, "state"); /* there is room again: of 30 samples */
    assert_int_equal(push(s, 30, 10), 0);
    consume(&k->b, stream, 10, 10 * CHANNELS * WIDTH);
    assert_int_equal(counts_of(s).durable_through, 40);
    durable(k, 0);
    assert_int_equal(push(s, 40, 10), 0);
    consume(&k->b, stream, 10, 10 * CHANNELS * WIDTH);
    assert_true(counts_of(s).unsaved); /* the client may have dropped 40 */
    assert_int_equal(counts_of(s).durable_through, 40);
    tick_after(k, 2000);
    save(k, stream, "state");
    durable(k, 0);
    assert_false(counts_of(s).unsaved);
    assert_int_equal(counts_of(s).durable_through, 50);
    tick_after(k, 0);
    assert_int_equal(sessions_unsaved(k->b.all), 0);
}

static void a_live_stream_does_not_wait_for_a_volume_that_does_not_answer(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *stream, *other;
    struct session *s = open_bed(k, &stream);
    save(k, stream, "state");
    tick_after(k, SESSION_FIRST_SAVE_MS - 100);
    assert_int_equal(k->b.owner.opened, 0);
    tick_after(k, 200);
    assert_int_equal(k->b.owner.opened, 1);
    assert_true(counts_of(s).unsaved);
    durable(k, 0); /* it answers */
    assert_false(counts_of(s).unsaved);
    assert_int_equal(push(s, 0, 10), 0);
    consume(&k->b, stream, 10, 10 * CHANNELS * WIDTH);
    tick_after(k, 2000);
    save(k, stream, "state");
    tick_after(k, SESSION_SAVE_HUNG_MS - 100);
    assert_false(counts_of(s).unsaved);
    tick_after(k, 200);
    assert_true(counts_of(s).unsaved);
    assert_int_equal(counts_of(s).durable_through, 10);
    char token[RESUME_TOKEN_SIZE]; /* a replay waits: its client has all the time of the world, and its samples */
    struct session *replay = open_lasting(&k->b, &other, token);
    save(k, other, "state");
    tick_after(k, 2 * SESSION_SAVE_HUNG_MS);
    assert_false(counts_of(replay).unsaved);
    assert_int_equal(k->b.owner.opened, 1);
}

static void count_warnings(void *ctx, enum log_level level) { *(int *)ctx += level == LOG_WARN; }

static void a_snapshot_that_cannot_be_made_is_logged(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    int warnings = 0;
    (void)open_lasting(&k->b, &stream, token);
    struct live_report r = report(stream, LIVE_SAVED);
    err_set(&r.err, ERR_EXHAUSTED, "out of memory for the state of a stream");
    log_hook(count_warnings, &warnings);
    sessions_report(k->b.all, &r);
    log_hook(NULL, NULL);
    assert_int_equal(warnings, 1);
    assert_int_equal(k->b.owner.opened, 1); /* the stream itself is well */
}

static void only_what_a_snapshot_holds_is_durable(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *stream;
    struct session_counts counts;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(&k->b, &stream, token);
    save(k, stream, "first");
    durable(k, 0);
    assert_int_equal(push(s, 0, 30), 0);
    consume(&k->b, stream, 10, 10 * CHANNELS * WIDTH);
    sessions_freeze(k->b.all); /* asks for one at once */
    assert_int_equal(count_orders(&k->b, LIVE_SAVE), 2);
    assert_false(session_room(s));
    assert_false(sessions_saved(k->b.all));
    save(k, stream, "second");
    consume(&k->b, stream, 20, 20 * CHANNELS * WIDTH); /* after it was made */
    session_counts(s, &counts);
    assert_int_equal(counts.durable_through, 0);
    durable(k, 0);
    session_counts(s, &counts);
    assert_int_equal(counts.durable_through, 10);
    assert_true(sessions_saved(k->b.all));
}

static void a_session_goes_on_from_its_snapshot(void **state) {
    struct kept_bench *k = *state;
    struct owner_side next = {0};
    struct live_stream *stream;
    struct session_counts counts;
    char token[RESUME_TOKEN_SIZE], session[SESSION_ID_SIZE];
    struct session *s = open_lasting(&k->b, &stream, token);
    save(k, stream, "first");
    durable(k, 0);
    int64_t epoch = session_epoch(s);
    str_copy(session, sizeof session, session_id(s));
    assert_int_equal(push(s, 20, 10), 0); /* after a hole */
    consume(&k->b, stream, 20, 0);
    consume(&k->b, stream, 10, 10 * CHANNELS * WIDTH);
    struct live_report r = report(stream, LIVE_RESULT);
    r.events = (struct event[]){{.first = 5, .end = 9, .confidence = 0.5f}};
    r.n_events = 1;
    r.samples = 3;
    r.p = (float[]){0.25f, 0.5f, 0.75f};
    r.learning_s = 30;
    sessions_report(k->b.all, &r);
    struct session_state shown;
    session_describe(s, &shown);
    assert_true(shown.learning_s == 30 && shown.learned_before_ms == 0);
    struct live_report alarm = report(stream, LIVE_ALARM), newest = report(stream, LIVE_PROVISIONAL);
    alarm.on = true;
    newest.probability = 0.75f;
    sessions_report(k->b.all, &alarm);
    sessions_report(k->b.all, &newest);
    session_seen(s, 0, 0);
    session_leave(s);
    come_back(s, &k->b.owner, token, 0, 0);
    sessions_freeze(k->b.all);
    save(k, stream, "the worker's part");
    durable(k, 0);
    sessions_free(k->b.all); /* the daemon ends without dropping it */
    assert_int_equal(k->kept.drops, 0);

    k->b.all = keeping_sessions(k);
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, NULL), 0);
    assert_int_equal(last(&k->b)->message.kind, LIVE_OPEN);
    assert_int_equal(last(&k->b)->data_bytes, strlen("the worker's part"));
    assert_memory_equal(last(&k->b)->data, "the worker's part", strlen("the worker's part"));
    assert_true(sessions_restoring(k->b.all));
    stream = last(&k->b)->stream;
    assert_null(sessions_find(k->b.all, token, "uid:2"));
    assert_non_null(s = sessions_find(k->b.all, token, "uid:1"));
    assert_int_equal(session_check(s, &own_open, NULL), 0);
    struct live_open other = own_open;
    other.on = 0.7;
    assert_int_equal(session_check(s, &other, NULL), ERR_INVALID);
    session_describe(s, &shown);
    assert_true(shown.alarm && shown.probability > 0.7f && shown.samples == 3 && shown.reconnects == 1);
    assert_int_equal(shown.learned_before_ms, 3 * 1000 / 256);
    come_back(s, &next, token, 0, 0);
    assert_int_equal(next.opened, 0); /* its state is not loaded yet */
    for (int i = 1; i < 9; i++)       /* its client acknowledged results before the restart: none is dropped */
        large_result(&k->b, stream, i, SESSION_KEPT_BYTES / 4);
    assert_int_equal(session_next_result(s), 0);
    struct live_report ready = report(stream, LIVE_OPENED);
    sessions_report(k->b.all, &ready);
    assert_false(sessions_restoring(k->b.all));
    assert_int_equal(next.opened, 1);
    assert_int_equal(next.results, 9);
    assert_int_equal(next.alarms, 1);
    assert_string_equal(session_id(s), session);
    assert_int_equal(session_epoch(s), epoch);
    session_counts(s, &counts);
    assert_int_equal(counts.received_through, 30);
    assert_int_equal(counts.durable_through, 30);
    assert_int_equal(counts.gaps, 1);
    assert_int_equal(counts.events_total, 1);
    assert_int_equal(counts.events[0].end, 9);
    session_describe(s, &shown);
    assert_int_equal(shown.learned_before_ms, 0); /* its newest results say that the patient is known */
    session_close(s, "failed");
    assert_int_equal(k->kept.drops, 1);
}

/* The first byte of a snapshot is its version; 9 is the first one that is read. */
static void a_snapshot_of_another_version_is_refused(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    open_lasting(&k->b, &stream, token);
    save(k, stream, "first");
    durable(k, 0);
    sessions_free(k->b.all);
    k->b.all = keeping_sessions(k);
    char *version = (char *)k->kept.state, written = *version;
    for (int later = 0; later < 2; later++) {
        *version = (char)(later ? written + 1 : 8);
        assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, NULL), ERR_DATA_LOSS);
    }
    *version = written;
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, NULL), 0);
    assert_non_null(sessions_find(k->b.all, token, "uid:1"));
}

/* Removes bytes of the snapshot. */
static void cut(struct kept_bench *k, size_t at, size_t n) {
    char *bytes = (char *)k->kept.state;
    k->kept.len -= n;
    memmove(bytes + at, bytes + at + n, k->kept.len - at);
}

/* Where the text ends that begins here. */
static size_t behind_text(const struct kept_bench *k, size_t at) {
    int64_t len;
    memcpy(&len, k->kept.state + at, sizeof len);
    return at + sizeof len + (size_t)len;
}

/* The first version has neither the patient and the boot behind the name of the client, nor the CLOCK_BOOTTIME of the alarm before
 * its probability and the number of answers, nor at the end how long the patient was learned, which channels carry the alarm,
 * where one last went off and whether another stream of the bed was opened since. */
static void a_snapshot_of_the_first_version_is_read(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    open_lasting(&k->b, &stream, token);
    save(k, stream, "first");
    durable(k, 0);
    sessions_free(k->b.all);
    k->b.all = keeping_sessions(k);
    *(char *)k->kept.state = 9;
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, NULL), ERR_DATA_LOSS);
    const char *principal = memmem(k->kept.state, k->kept.len, "uid:1", strlen("uid:1"));
    const size_t client = (size_t)(principal - k->kept.state) + strlen("uid:1"), patient = behind_text(k, client);
    k->kept.len -= 4 * sizeof(int64_t);
    cut(k, k->kept.len - 3 * sizeof(int64_t), sizeof(int64_t));
    cut(k, patient, behind_text(k, behind_text(k, patient)) - patient);
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, NULL), 0);
    assert_int_equal(last(&k->b)->data_bytes, strlen("first"));
    assert_non_null(sessions_find(k->b.all, token, "uid:1"));
}

static bool is_followed(const struct session *s) {
    struct session_state shown;
    session_describe(s, &shown);
    return shown.followed;
}

/* Its client was started anew, and knows nothing of the stream; also after a restart. */
static void a_stream_whose_bed_goes_on_with_another_one_is_followed(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *streams[2];
    struct session_request of_bed = bed;
    struct session *s[2] = {NULL};
    struct owner_side next = {0};
    char token[RESUME_TOKEN_SIZE];
    of_bed.client = "bed 7";
    for (int i = 0; i < 2; i++) {
        s[i] = open_as(&k->b, &of_bed, &streams[i]);
        save(k, streams[i], "first");
        durable(k, 0);
        assert_int_equal(is_followed(s[0]), i);
        if (!i)
            session_leave(s[i]);
    }
    assert_false(is_followed(s[1]));
    str_copy(token, sizeof token, session_token(s[0]));
    save(k, streams[0], "followed");
    assert_string_equal(k->kept.id, session_id(s[0]));
    durable(k, 0);
    sessions_free(k->b.all);
    k->b.all = keeping_sessions(k);
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, NULL), 0);
    assert_non_null(s[0] = sessions_find(k->b.all, token, "uid:1"));
    assert_true(is_followed(s[0]));
    come_back(s[0], &next, token, 0, 0);
    assert_false(is_followed(s[0]));
}

/* The client lost its power: it is back before the connection of before is found to be dead. */
static void a_stream_that_loses_its_connection_after_another_one_began_is_followed(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *streams[2];
    struct session_request of_bed = bed;
    struct session *s[2] = {NULL};
    of_bed.client = "bed 7";
    for (int i = 0; i < 2; i++) {
        s[i] = open_as(&k->b, &of_bed, &streams[i]);
        save(k, streams[i], "first");
        durable(k, 0);
    }
    assert_false(is_followed(s[0]));
    const int saves = count_orders(&k->b, LIVE_SAVE);
    session_leave(s[0]);
    assert_true(is_followed(s[0]));
    assert_int_equal(count_orders(&k->b, LIVE_SAVE), saves + 1); /* also after a restart */
    session_leave(s[1]);
    assert_false(is_followed(s[1]));
}

static void a_restored_stream_keeps_its_rate_of_false_alarms(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    struct err err;
    open_lasting(&k->b, &stream, token);
    save(k, stream, "first");
    durable(k, 0);
    sessions_free(k->b.all);
    k->b.all = keeping_sessions(k);
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, &err), 0);
    struct session *s = sessions_find(k->b.all, token, "uid:1");
    struct live_open open = own_open;
    assert_int_equal(session_check(s, &open, &err), 0);
    open.alarm_rate = 0;
    assert_int_equal(session_check(s, &open, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "alarm_rate"));
}

static void count_visits(void *ctx, const struct session *s) { (void)s, ++*(int *)ctx; }

static void a_session_that_ended_before_a_restart_is_there_for_its_client_alone(void **state) {
    struct kept_bench *k = *state;
    struct owner_side next = {0};
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE], session[SESSION_ID_SIZE], model[SESSION_NAME_SIZE];
    struct session *s = open_lasting(&k->b, &stream, token);
    save(k, stream, "first");
    durable(k, 0);
    str_copy(session, sizeof session, session_id(s));
    str_copy(model, sizeof model, session_model(s));
    assert_int_equal(session_finish(s, NULL), 0);
    struct live_report over = report(stream, LIVE_SUMMARY);
    sessions_report(k->b.all, &over);
    assert_int_equal(k->kept.ends, 0);
    session_close(s, "done"); /* the Summary was sent */
    assert_int_equal(k->kept.ends, 1);
    assert_int_equal(k->kept.drops, 0);
    sessions_free(k->b.all);

    k->b.all = keeping_sessions(k);
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, true, NULL), 0);
    sessions_tick(k->b.all, 1000);
    assert_int_equal(value(&k->b, "brrd_stream_sessions", ""), 0);
    assert_int_equal(value(&k->b, "brrd_stream_sessions_parked", ""), 0);
    for (int i = 0; i < 2; i++) /* it takes no place of live ones */
        assert_int_equal(session_open(k->b.all, &lasting, &sink, &k->b.owner, &s, NULL), 0);
    assert_int_equal(session_open(k->b.all, &lasting, &sink, &k->b.owner, &s, NULL), ERR_EXHAUSTED);
    for (int back = 0; back < 2; back++) {
        int visits = 0;
        sessions_visit(k->b.all, count_visits, &visits);
        assert_int_equal(visits, back + 2);
        assert_int_equal(sessions_of_model(k->b.all, model), back + 2);
        struct session *found = NULL;
        assert_int_equal(!sessions_by_id(k->b.all, session, &found, NULL), back);
        if (!back)
            come_back(sessions_find(k->b.all, token, "uid:1"), &next, token, 0, 0); /* the Summary did not arrive */
    }
}

/* Another snapshot would take back that it has ended. */
static void a_stream_that_ended_is_not_saved_again_when_its_bed_goes_on(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *stream;
    struct session_request of_bed = bed;
    of_bed.client = "bed 7";
    struct session *s = open_as(&k->b, &of_bed, &stream);
    save(k, stream, "first");
    durable(k, 0);
    assert_int_equal(session_finish(s, NULL), 0);
    struct live_report over = report(stream, LIVE_SUMMARY);
    sessions_report(k->b.all, &over);
    session_close(s, "done");
    sessions_free(k->b.all);
    k->b.all = keeping_sessions(k);
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, true, NULL), 0);
    struct live_report opened = report(last(&k->b)->stream, LIVE_OPENED);
    sessions_report(k->b.all, &opened);
    const int saves = count_orders(&k->b, LIVE_SAVE);
    open_as(&k->b, &of_bed, &stream);
    assert_int_equal(count_orders(&k->b, LIVE_SAVE), saves + 1);
    assert_ptr_equal(last(&k->b)->stream, stream);
}

static void a_session_that_is_closed_while_its_client_is_away_leaves_no_snapshot(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(&k->b, &stream, token);
    save(k, stream, "first");
    durable(k, 0);
    session_leave(s);
    session_end(s, "uid:0", "");
    assert_int_equal(k->kept.drops, 1);
    assert_ptr_equal(sessions_find(k->b.all, token, "uid:1"), s); /* its client will hear of it */
}

static void a_snapshot_that_the_worker_refuses_is_moved_aside(void **state) {
    struct kept_bench *k = *state;
    struct owner_side next = {0};
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    open_lasting(&k->b, &stream, token);
    save(k, stream, "first");
    durable(k, 0);
    sessions_free(k->b.all);
    k->b.all = keeping_sessions(k);
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, NULL), 0);
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, NULL), ERR_EXISTS);
    stream = last(&k->b)->stream;
    struct session *s = sessions_find(k->b.all, token, "uid:1");
    come_back(s, &next, token, 0, 0);
    struct live_report r = report(stream, LIVE_FAILED);
    err_set(&r.err, ERR_DATA_LOSS, "another model");
    sessions_report(k->b.all, &r);
    assert_int_equal(k->kept.rejects, 1);
    assert_int_equal(next.failures, 1);
    assert_int_equal(next.err.code, ERR_UNAVAILABLE);
    assert_string_equal(next.reason, "RESTORING"); /* the client comes back, and begins another stream */
    assert_non_null(strstr(next.err.message, "begins anew"));
    assert_true(session_retry_ms(s, next.reason) > 0);
    assert_null(sessions_find(k->b.all, token, "uid:1"));
    assert_false(sessions_restoring(k->b.all));
    session_close(s, "failed");
    assert_int_equal(k->kept.drops, 0);
}

static void a_snapshot_whose_model_is_not_there_yet_is_tried_again(void **state) {
    struct kept_bench *k = *state;
    struct owner_side next = {0};
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    open_lasting(&k->b, &stream, token);
    save(k, stream, "first");
    durable(k, 0);
    sessions_free(k->b.all);
    k->b.all = keeping_sessions(k);
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, NULL), 0);
    stream = last(&k->b)->stream;
    struct session *s = sessions_find(k->b.all, token, "uid:1");
    come_back(s, &next, token, 0, 0);
    struct live_report r = report(stream, LIVE_FAILED);
    err_set(&r.err, ERR_NOT_FOUND, "the volume of the model is not mounted");
    sessions_report(k->b.all, &r);
    assert_int_equal(k->kept.rejects, 0);
    assert_int_equal(k->kept.retries, 1);
    assert_int_equal(next.failures, 1);
    assert_int_equal(next.err.code, ERR_UNAVAILABLE);
    assert_string_equal(next.reason, "RESTORING");
    assert_non_null(strstr(next.err.message, "try again later"));
    assert_true(session_retry_ms(s, next.reason) > 0);
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, NULL), ERR_UNAVAILABLE);
    session_close(s, "failed");
    assert_true(value(&k->b, "brrd_stream_sessions_closed_total",
                      "ward\x1f"
                      "failed") == 0); /* it has not ended */
    closed(&k->b, stream);
    assert_int_equal(k->kept.drops, 0);
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, NULL), 0);
    assert_non_null(s = sessions_find(k->b.all, token, "uid:1"));
    come_back(s, &next, token, 0, 0);
    struct live_report ready = report(last(&k->b)->stream, LIVE_OPENED);
    sessions_report(k->b.all, &ready);
    assert_int_equal(next.opened, 1);
}

/* The device is gone, or the model serves on others now: the stream goes on elsewhere. One that is faulty may come back. */
static void a_snapshot_whose_device_no_longer_has_the_model_goes_on_at_another_one(void **state) {
    static const struct {
        int refusal, restored;
    } cases[] = {{ERR_UNAVAILABLE, ERR_UNAVAILABLE}, {ERR_NOT_FOUND, 0}, {ERR_INVALID, 0}};
    struct kept_bench *k = *state;
    struct live_open open = own_open;
    const struct session_request request_ = {.open = &open, .principal = "uid:1", .resumable = true};
    struct live_stream *stream;
    struct err err;
    str_copy(open.device_name, sizeof open.device_name, "cuda:1");
    open_as(&k->b, &request_, &stream);
    save(k, stream, "first");
    durable(k, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sessions_free(k->b.all);
        k->b.all = keeping_sessions(k);
        k->refusal = cases[i].refusal;
        assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, &err), cases[i].restored);
        assert_int_equal(sessions_count(k->b.all), !cases[i].restored);
        if (!cases[i].restored)
            assert_int_equal(live_stream_open(last(&k->b)->stream)->device, CHOSEN);
    }
}

static void a_snapshot_outlives_the_device(void **state) {
    struct kept_bench *k = *state;
    struct owner_side next = {0};
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    struct err none = {0};
    struct session *s = open_lasting(&k->b, &stream, token);
    save(k, stream, "state");
    sessions_kept(k->b.all, session_id(s), &none);
    struct live_report r = report(stream, LIVE_FAILED);
    err_set(&r.err, ERR_INTERNAL, "the bus is lost");
    r.lost = true;
    sessions_report(k->b.all, &r);
    assert_int_equal(k->b.owner.failures, 1);
    assert_int_equal(k->b.owner.err.code, ERR_UNAVAILABLE);
    assert_string_equal(k->b.owner.reason, "DRAINING");
    assert_non_null(strstr(k->b.owner.err.message, "the bus is lost"));
    session_leave(s);
    sessions_free(k->b.all); /* the daemon ends */
    k->b.all = keeping_sessions(k);
    assert_int_equal(sessions_restore(k->b.all, k->kept.state, k->kept.len, false, NULL), 0);
    r = report(last(&k->b)->stream, LIVE_FAILED); /* and the next device fails as well */
    r.lost = true;
    sessions_report(k->b.all, &r);
    s = sessions_find(k->b.all, token, "uid:1");
    assert_non_null(s);
    come_back(s, &next, token, 0, 0);
    assert_int_equal(next.opened, 0); /* not before it is restored, by the daemon after this one */
    assert_int_equal(k->kept.drops, 0);
    assert_int_equal(k->kept.rejects, 0);
}

static void every_shorter_or_changed_snapshot_is_refused_or_harmless(void **state) {
    struct kept_bench *k = *state;
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    open_lasting(&k->b, &stream, token);
    numbered(&k->b, stream, LIVE_RESULT, 0);
    save(k, stream, "the worker's part");
    size_t len = k->kept.len;
    char *copy = malloc(len);
    memcpy(copy, k->kept.state, len);
    for (size_t n = 0; n < len; n++) {
        struct sessions *all = keeping_sessions(k);
        k->b.worker.refuse = 1; /* keeps the orders few */
        assert_int_not_equal(sessions_restore(all, copy, n, false, NULL), 0);
        sessions_free(all);
    }
    for (size_t i = 0; i < len; i++) {
        struct sessions *all = keeping_sessions(k);
        copy[i] = (char)(copy[i] ^ 0x80);
        k->b.worker.refuse = 1;
        sessions_restore(all, copy, len, false, NULL); /* the checksum of the file stands before this */
        sessions_free(all);
        copy[i] = (char)(copy[i] ^ 0x80);
    }
    k->b.worker.refuse = 0;
    free(copy);
}

/* ---- a look at all sessions, in parts ---- */

struct seen {
    struct session *of[8];
    int n;
};
static void see_slowly(void *ctx, const struct session *s) {
    struct seen *seen = ctx;
    assert_in_range(seen->n, 0, 7);
    seen->of[seen->n++] = (struct session *)(uintptr_t)s;
    later_ms += 10;
}

/* Each part ends with its time; sessions come and go between them, and each that stays is seen once. */
static void a_walk_is_in_parts_between_which_sessions_come_and_go(void **state) {
    struct bench *b = *state;
    struct live_stream *streams[5], *more;
    struct session *s[5];
    struct session_walk walk = {0}, other = {0};
    struct seen seen = {0}, all = {0};
    for (int i = 0; i < 5; i++)
        s[i] = open_one(b, &streams[i]);
    assert_true(sessions_walk(b->all, &walk, 5, see_slowly, &seen));
    assert_int_equal(seen.n, 1);
    assert_ptr_equal(seen.of[0], s[4]); /* the newest first */
    assert_true(sessions_walk(b->all, &other, 5, see_slowly, &all));
    session_close(s[3], "done"); /* who would be next */
    closed(b, streams[3]);
    session_close(s[4], "done"); /* who was seen */
    closed(b, streams[4]);
    open_one(b, &more);
    for (int parts = 1; sessions_walk(b->all, &walk, 5, see_slowly, &seen); parts++)
        assert_int_equal(seen.n, parts + 1);
    assert_int_equal(seen.n, 4);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(seen.of[1 + i], s[2 - i]);
    sessions_walk_stop(b->all, &other);
    assert_int_equal(all.n, 1);
    later_ms = 0;
}

int main(void) {
#define STORE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up_store, tear_down_store)
    const struct CMUnitTest tests[] = {
        STORE_TEST(opened_comes_when_the_first_snapshot_is_durable),
        STORE_TEST(a_disk_that_is_full_opens_the_stream_and_promises_nothing),
        STORE_TEST(a_live_stream_goes_on_when_its_snapshots_fail),
        STORE_TEST(a_live_stream_does_not_wait_for_a_volume_that_does_not_answer),
        STORE_TEST(a_snapshot_that_cannot_be_made_is_logged),
        STORE_TEST(only_what_a_snapshot_holds_is_durable),
        STORE_TEST(a_session_goes_on_from_its_snapshot),
        STORE_TEST(a_snapshot_of_another_version_is_refused),
        STORE_TEST(a_snapshot_of_the_first_version_is_read),
        STORE_TEST(a_stream_whose_bed_goes_on_with_another_one_is_followed),
        STORE_TEST(a_stream_that_loses_its_connection_after_another_one_began_is_followed),
        STORE_TEST(a_restored_stream_keeps_its_rate_of_false_alarms),
        STORE_TEST(a_session_that_ended_before_a_restart_is_there_for_its_client_alone),
        STORE_TEST(a_stream_that_ended_is_not_saved_again_when_its_bed_goes_on),
        STORE_TEST(a_session_that_is_closed_while_its_client_is_away_leaves_no_snapshot),
        STORE_TEST(a_snapshot_that_the_worker_refuses_is_moved_aside),
        STORE_TEST(a_snapshot_whose_model_is_not_there_yet_is_tried_again),
        STORE_TEST(a_snapshot_whose_device_no_longer_has_the_model_goes_on_at_another_one),
        STORE_TEST(a_snapshot_outlives_the_device),
        STORE_TEST(every_shorter_or_changed_snapshot_is_refused_or_harmless),
        cmocka_unit_test_setup_teardown(a_walk_is_in_parts_between_which_sessions_come_and_go, set_up_late_many, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
