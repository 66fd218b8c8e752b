#include "daemon/live/snapshot_store.h"

#include "base/base.h"
#include "daemon/live/session_parts.h"
#include "daemon/live/snapshot.h"
#include "daemon/viewer/eegring.h"
#include "unit/failing_readdir.h"
#include "unit/session_fixture.h"
#include "unit/temp_dir.h"

/* The volume of the snapshots fails so often. */
static int faults;
int __real_fsio_read(const char *path, size_t max_bytes, char **ret_data, size_t *ret_len, struct err *err);
int __wrap_fsio_read(const char *path, size_t max_bytes, char **ret_data, size_t *ret_len, struct err *err);
int __wrap_fsio_read(const char *path, size_t max_bytes, char **ret_data, size_t *ret_len, struct err *err) {
    if (faults-- > 0)
        return err_set(err, ERR_INTERNAL, "%s: Input/output error", path);
    return __real_fsio_read(path, max_bytes, ret_data, ret_len, err);
}
/* While it is locked, the volume takes no EEG. */
static pthread_mutex_t slow = PTHREAD_MUTEX_INITIALIZER;
static int eeg_writes;
int __real_snapshot_write_eeg(const char *dir, const char *id, const void *data, size_t len, struct err *err);
int __wrap_snapshot_write_eeg(const char *dir, const char *id, const void *data, size_t len, struct err *err);
int __wrap_snapshot_write_eeg(const char *dir, const char *id, const void *data, size_t len, struct err *err) {
    pthread_mutex_lock(&slow);
    eeg_writes++;
    pthread_mutex_unlock(&slow);
    return __real_snapshot_write_eeg(dir, id, data, len, err);
}
/* The monotonic clock is ahead by so much. */
static int64_t later_ms;
int64_t __real_clock_ms(void);
int64_t __wrap_clock_ms(void);
int64_t __wrap_clock_ms(void) { return __real_clock_ms() + later_ms; }

/* A daemon's sessions and their snapshot store, with a worker that keeps its orders. */
struct daemon_side {
    struct bench b;
    uv_loop_t loop;
    struct snapshot_store *store;
    void *folder;
    char dir[512];
    bool shared; /* with the folders beside it */
};

static void on_written(void *ctx, const char *id, const struct err *err) {
    sessions_kept(((struct daemon_side *)ctx)->b.all, id, err);
}

static void begin(struct daemon_side *d) {
    uv_loop_init(&d->loop);
    assert_non_null(d->store = snapshot_store_new(&d->loop, d->dir, d->shared, on_written, d));
    const struct sessions_config config = {.post = take,
                                           .post_ctx = &d->b.worker,
                                           .metrics = d->b.metrics,
                                           .max_sessions = 4,
                                           .resume_ttl_ms = 3600 * 1000,
                                           .max_waiting_bytes = 16384,
                                           .store = snapshot_store_for_sessions(d->store)};
    d->b.all = sessions_new(&config);
}

static void stop(struct daemon_side *d) {
    uv_run(&d->loop, UV_RUN_DEFAULT);
    sessions_free(d->b.all);
    d->b.all = NULL;
    snapshot_store_free(d->store);
    uv_loop_close(&d->loop);
}

static int set_up_daemon(void **state) {
    struct daemon_side *d = calloc(1, sizeof *d);
    assert_int_equal(temp_dir_make(&d->folder), 0);
    str_format(d->dir, sizeof d->dir, "%s/sessions", (const char *)d->folder);
    d->b.metrics = metrics_new(families, sizeof families / sizeof *families, 16);
    faults = 0;
    later_ms = 0;
    *state = d;
    return snapshot_prepare(d->dir, NULL);
}

static int tear_down_daemon(void **state) {
    struct daemon_side *d = *state;
    temp_dir_remove(&d->folder);
    return tear_down(state);
}

/* A stream with a snapshot, whose token opens it. */
static struct session *make_stream(struct daemon_side *d, char token[RESUME_TOKEN_SIZE]) {
    struct live_stream *stream;
    struct session *s = open_lasting(&d->b, &stream, token);
    struct live_report r = report(stream, LIVE_SAVED);
    r.state = strdup("the worker's part");
    r.state_len = strlen(r.state);
    sessions_report(d->b.all, &r);
    free(r.state);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    return s;
}

static void round_of(struct daemon_side *d, int64_t after_ms) {
    later_ms += after_ms;
    snapshot_store_tick(d->store);
    uv_run(&d->loop, UV_RUN_DEFAULT);
}

static void path_of(const struct daemon_side *d, const char *folder, const char *id, char path[1024]) {
    assert_true(str_format(path, 1024, "%s%s/%s", d->dir, folder, id));
}

static void a_snapshot_that_cannot_be_read_now_waits_and_is_tried_again(void **state) {
    struct daemon_side *d = *state;
    char token[2][RESUME_TOKEN_SIZE];
    begin(d);
    for (int i = 0; i < 2; i++)
        make_stream(d, token[i]);
    stop(d);
    begin(d);
    faults = 1;
    snapshot_store_restore(d->store, d->b.all, d->b.metrics, 60 * 1000);
    assert_true(snapshot_store_restoring(d->store));
    assert_true(sessions_awaited(d->b.all));
    assert_int_equal(sessions_count(d->b.all), 0); /* the loop waits for no volume */
    uv_run(&d->loop, UV_RUN_DEFAULT);
    assert_false(snapshot_store_restoring(d->store));
    assert_int_equal(sessions_count(d->b.all), 1);
    assert_true(sessions_awaited(d->b.all)); /* a client of the other one is asked to wait */
    faults = 1;
    round_of(d, 6000);
    assert_int_equal(sessions_count(d->b.all), 1);
    round_of(d, 6000);
    assert_false(sessions_awaited(d->b.all));
    for (int i = 0; i < 2; i++)
        assert_non_null(sessions_find(d->b.all, token[i], "uid:1"));
    assert_true(value(&d->b, "brrd_stream_snapshots_total", "unknown\x1frejected") == 0);
    stop(d);
}

static void what_could_not_be_used_is_left_for_the_next_daemon(void **state) {
    struct daemon_side *d = *state;
    char token[RESUME_TOKEN_SIZE], path[1024];
    begin(d);
    struct session *s = make_stream(d, token);
    path_of(d, "", session_id(s), path);
    stop(d);
    begin(d);
    faults = 1000;
    snapshot_store_restore(d->store, d->b.all, d->b.metrics, 60 * 1000);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    round_of(d, 30 * 1000);
    assert_true(sessions_awaited(d->b.all));
    round_of(d, 31 * 1000);
    assert_false(sessions_awaited(d->b.all));
    assert_true(fsio_exists(path));
    stop(d);
    begin(d);
    faults = 0;
    snapshot_store_restore(d->store, d->b.all, d->b.metrics, 60 * 1000);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    assert_non_null(sessions_find(d->b.all, token, "uid:1"));
    stop(d);
}

/* A stream of a model file with a snapshot, after which its daemon has ended. kept: where the snapshot keeps the model. */
static void leave_stream_of_file(struct daemon_side *d, char file[1024], char kept[1024], char token[RESUME_TOKEN_SIZE]) {
    char sha256[DIGEST_HEX_SIZE];
    struct live_open open_file = own_open;
    const struct session_request asks = {.open = &open_file, .principal = "uid:1", .resumable = true};
    struct session *s = NULL;
    str_format(file, 1024, "%s/model.safetensors", (const char *)d->folder);
    open_file.checkpoint = file;
    assert_int_equal(fsio_write_atomic(file, "weights", 7, NULL), 0);
    assert_true(digest_bytes("weights", 7, sha256));
    assert_int_equal(snapshot_model_path(d->dir, sha256, kept, 1024, NULL), 0);
    begin(d);
    assert_int_equal(session_open(d->b.all, &asks, &sink, &d->b.owner, &s, NULL), 0);
    struct live_report opened = report(last(&d->b)->stream, LIVE_OPENED), saved = report(last(&d->b)->stream, LIVE_SAVED);
    opened.opened = calloc(1, sizeof *opened.opened);
    str_copy(opened.opened->info.sha256, sizeof opened.opened->info.sha256, sha256);
    sessions_report(d->b.all, &opened);
    str_copy(token, RESUME_TOKEN_SIZE, session_token(s));
    saved.state = strdup("the worker's part");
    saved.state_len = strlen(saved.state);
    sessions_report(d->b.all, &saved);
    free(saved.state);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    assert_true(fsio_exists(kept));
    stop(d);
}

/* The worker cannot restore the stream of the newest order now. */
static void fail_now(struct daemon_side *d) {
    struct live_stream *stream = last(&d->b)->stream;
    assert_int_equal(last(&d->b)->message.kind, LIVE_OPEN);
    struct live_report failed = report(stream, LIVE_FAILED);
    err_set(&failed.err, ERR_NOT_FOUND, "the volume of the model is not mounted");
    sessions_report(d->b.all, &failed);
    closed(&d->b, stream);
}

static void a_snapshot_keeps_its_model_while_it_exists(void **state) {
    struct daemon_side *d = *state;
    char file[1024], kept[1024], token[RESUME_TOKEN_SIZE];
    struct session *s = NULL;
    leave_stream_of_file(d, file, kept, token);
    assert_int_equal(fsio_write_atomic(file, "others!", 7, NULL), 0); /* another model takes the file's name */
    begin(d);
    snapshot_store_restore(d->store, d->b.all, d->b.metrics, 60 * 1000);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    round_of(d, 1000); /* what no snapshot needs would be removed */
    assert_true(fsio_exists(kept));
    assert_non_null(s = sessions_find(d->b.all, token, "uid:1"));
    assert_string_equal(live_stream_open(last(&d->b)->stream)->checkpoint, kept);
    session_end(s, "uid:0", "");
    round_of(d, 1000);
    round_of(d, 1000);
    assert_false(fsio_exists(kept));
    stop(d);
}

static void a_stream_that_fails_while_kept_models_are_listed_keeps_its_own(void **state) {
    struct daemon_side *d = *state;
    char file[1024], kept[1024], token[RESUME_TOKEN_SIZE];
    leave_stream_of_file(d, file, kept, token);
    begin(d);
    snapshot_store_restore(d->store, d->b.all, d->b.metrics, 60 * 1000);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    snapshot_store_tick(d->store); /* lists them */
    fail_now(d);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    assert_true(fsio_exists(kept));
    round_of(d, 6000);
    assert_non_null(sessions_find(d->b.all, token, "uid:1"));
    assert_string_equal(live_stream_open(last(&d->b)->stream)->checkpoint, kept);
    stop(d);
}

/* ---- EEG of alarms ---- */

static struct eegring *new_ring(void) {
    struct eegring *ring = NULL;
    assert_int_equal(
        eegring_new("referential-19", &(struct eegring_limits){.samples = 10 * 256, .max_bytes = 1 << 24}, &ring, NULL), 0);
    return ring;
}

/* Another second of the stream, with an alarm, whose EEG is kept; a snapshot is on its way. */
static void alarm_and_save(struct daemon_side *d, struct session *s, int second) {
    static const double uv[32 * 256];
    const int64_t at = 256 * second + 128;
    eegring_put(s->back.eeg, uv, 32, 256, 0, NULL);
    eegring_put_mark(s->back.eeg, &(struct eegring_mark){EEGRING_ALARM_ON, at, at, 1});
    struct live_report r = report(s->stream, LIVE_SAVED);
    s->saves.saving = true;
    r.state = strdup("the worker's part");
    r.state_len = strlen(r.state);
    sessions_report(d->b.all, &r);
    free(r.state);
}

static struct session *alarm_stream(struct daemon_side *d, char token[RESUME_TOKEN_SIZE]) {
    struct live_stream *stream;
    struct session *s = open_lasting(&d->b, &stream, token);
    s->back.eeg = new_ring();
    alarm_and_save(d, s, 0);
    return s;
}

static void eeg_of(const struct daemon_side *d, const struct session *s, char path[1024]) {
    assert_true(str_format(path, 1024, "%s/%s.eeg", d->dir, session_id(s)));
}

static void a_snapshot_is_durable_before_the_eeg_of_its_alarms(void **state) {
    struct daemon_side *d = *state;
    char token[RESUME_TOKEN_SIZE], eeg[2][1024], left[1024];
    const int before = eeg_writes;
    begin(d);
    pthread_mutex_lock(&slow);
    struct session *s[2] = {alarm_stream(d, token), alarm_stream(d, token)};
    for (int i = 0; i < 2; i++)
        eeg_of(d, s[i], eeg[i]);
    while (s[0]->saves.saving || s[1]->saves.saving)
        uv_run(&d->loop, UV_RUN_ONCE);
    for (int second = 1; second < 4; second++) {
        alarm_and_save(d, s[1], second);
        while (s[1]->saves.saving)
            uv_run(&d->loop, UV_RUN_ONCE);
    }
    assert_false(fsio_exists(eeg[0]) || fsio_exists(eeg[1]));
    assert_false(sessions_saved(d->b.all)); /* a daemon that stops waits for it */
    path_of(d, "", session_id(s[0]), left);
    session_end(s[0], "uid:0", "");
    while (fsio_exists(left))
        uv_run(&d->loop, UV_RUN_ONCE);
    pthread_mutex_unlock(&slow);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    assert_true(sessions_saved(d->b.all));
    assert_false(fsio_exists(eeg[0])); /* of a stream that has ended meanwhile */
    assert_true(fsio_exists(eeg[1]));
    assert_int_equal(eeg_writes - before, 2); /* the second writes what came while it waited */
    stop(d);
}

static void corrupt_snapshots_are_moved_aside(void **state) {
    struct daemon_side *d = *state;
    char token[RESUME_TOKEN_SIZE], path[1024], aside[1024];
    begin(d);
    struct session *s = make_stream(d, token);
    path_of(d, "", session_id(s), path);
    path_of(d, "/rejected", session_id(s), aside);
    stop(d);
    assert_int_equal(truncate(path, 20), 0);
    begin(d);
    snapshot_store_restore(d->store, d->b.all, d->b.metrics, 60 * 1000);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    assert_false(sessions_awaited(d->b.all));
    assert_int_equal(sessions_count(d->b.all), 0);
    assert_true(fsio_exists(aside));
    assert_true(value(&d->b, "brrd_stream_snapshots_total", "unknown\x1frejected") == 1);
    stop(d);
}

/* The worker cannot read the model of a restored stream now: the stream is restored again later. */
static void a_stream_whose_model_is_not_there_yet_is_restored_later(void **state) {
    struct daemon_side *d = *state;
    char token[RESUME_TOKEN_SIZE];
    begin(d);
    make_stream(d, token);
    stop(d);
    begin(d);
    snapshot_store_restore(d->store, d->b.all, d->b.metrics, 60 * 1000);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    fail_now(d);
    assert_null(sessions_find(d->b.all, token, "uid:1"));
    assert_true(sessions_awaited(d->b.all));
    round_of(d, 6000);
    assert_false(sessions_awaited(d->b.all));
    assert_non_null(sessions_find(d->b.all, token, "uid:1"));
    stop(d);
}

/* A rejected snapshot that is older than SNAPSHOT_REJECTED_S. */
static void put_old_rejected(const struct daemon_side *d, const char *id, char path[1024]) {
    const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    path_of(d, "/rejected", "", path);
    assert_int_equal(fsio_mkdirs(path, NULL), 0);
    path_of(d, "/rejected", id, path);
    assert_int_equal(fsio_write_atomic(path, "x", 1, NULL), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
}

static void rejected_snapshots_are_pruned_at_the_start_and_with_the_next_one(void **state) {
    struct daemon_side *d = *state;
    char path[1024];
    begin(d);
    put_old_rejected(d, "0123456789abcdef0123456789abcdef", path);
    snapshot_store_restore(d->store, d->b.all, d->b.metrics, 60 * 1000);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    assert_false(fsio_exists(path));
    put_old_rejected(d, "0123456789abcdef0123456789abcdef", path);
    const struct session_store own = snapshot_store_for_sessions(d->store);
    own.reject(own.ctx, "fedcba9876543210fedcba9876543210");
    uv_run(&d->loop, UV_RUN_DEFAULT);
    assert_false(fsio_exists(path));
    stop(d);
}

static void live_streams_come_before_those_that_have_ended(void **state) {
    struct daemon_side *d = *state;
    char token[2][RESUME_TOKEN_SIZE], mark[1024], id[SESSION_ID_SIZE] = "";
    begin(d);
    for (int i = 0; i < 2; i++) {
        const char *own = session_id(make_stream(d, token[i]));
        if (!i || strcmp(own, id) < 0)
            str_copy(id, sizeof id, own);
    }
    stop(d);
    path_of(d, "", id, mark); /* the first by its id has ended */
    assert_true(str_format(mark + strlen(mark), 16, ".ended"));
    assert_int_equal(fsio_write_atomic(mark, "", 0, NULL), 0);
    begin(d);
    int before = d->b.worker.n;
    snapshot_store_restore(d->store, d->b.all, d->b.metrics, 60 * 1000);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    struct session *first = live_stream_owner(d->b.worker.orders[before]->stream);
    assert_string_not_equal(session_id(first), id);
    struct session *found = NULL;
    assert_int_equal(sessions_by_id(d->b.all, session_id(first), &found, NULL), 0);
    assert_ptr_equal(found, first);
    assert_int_not_equal(sessions_by_id(d->b.all, id, &found, NULL), 0); /* it is there for its client alone */
    for (int i = 0; i < 2; i++)
        assert_non_null(sessions_find(d->b.all, token[i], "uid:1"));
    stop(d);
}

/* ---- daemons that share the folder ---- */

static struct daemon_side *make_peer(struct daemon_side *d) {
    struct daemon_side *peer = calloc(1, sizeof *peer);
    peer->b.metrics = d->b.metrics;
    assert_true(str_format(peer->dir, sizeof peer->dir, "%s/peer", (const char *)d->folder));
    assert_int_equal(snapshot_prepare(peer->dir, NULL), 0);
    d->shared = peer->shared = true;
    begin(d);
    begin(peer);
    snapshot_store_restore(d->store, d->b.all, d->b.metrics, 60 * 1000);
    snapshot_store_restore(peer->store, peer->b.all, peer->b.metrics, 60 * 1000);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    uv_run(&peer->loop, UV_RUN_DEFAULT);
    return peer;
}

static void end_peer(struct daemon_side *peer) {
    stop(peer);
    for (int i = 0; i < peer->b.worker.n; i++)
        live_order_free(peer->b.worker.orders[i]);
    free(peer);
}

static int answers;
static void on_claimed(struct session_claim *c) { answers += c->ctx != NULL; }

static void ask_for(struct daemon_side *d, const char *token) {
    struct session_claim *c = calloc(1, sizeof *c);
    *c = (struct session_claim){.done = on_claimed, .ctx = d};
    assert_int_equal(sessions_claim(d->b.all, token, c, NULL), 0);
}

static void claim(struct daemon_side *d, const char *token) {
    int before = answers;
    ask_for(d, token);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    assert_int_equal(answers, before + 1);
}

static void save_again(struct daemon_side *d, struct session *s) {
    struct live_report r = report(s->stream, LIVE_SAVED);
    s->saves.saving = true;
    r.state = strdup("the worker's part");
    r.state_len = strlen(r.state);
    sessions_report(d->b.all, &r);
    free(r.state);
    uv_run(&d->loop, UV_RUN_DEFAULT);
}

static void a_stream_goes_on_at_the_daemon_that_claims_its_snapshot(void **state) {
    struct daemon_side *d = *state;
    struct daemon_side *peer = make_peer(d);
    char token[RESUME_TOKEN_SIZE], mine[1024], theirs[1024];
    struct session *s = make_stream(d, token);
    path_of(d, "", session_id(s), mine);
    path_of(peer, "", session_id(s), theirs);
    claim(peer, "0123456789abcdef0123456789abcdef"); /* nobody has it */
    assert_null(sessions_find(peer->b.all, "0123456789abcdef0123456789abcdef", "uid:1"));
    claim(d, token); /* its own */
    assert_ptr_equal(sessions_find(d->b.all, token, "uid:1"), s);
    assert_true(fsio_exists(mine));
    claim(peer, token);
    assert_non_null(sessions_find(peer->b.all, token, "uid:1"));
    assert_null(sessions_find(peer->b.all, token, "uid:2"));
    assert_false(fsio_exists(mine));
    assert_true(fsio_exists(theirs));
    int failures = d->b.owner.failures;
    save_again(d, s); /* the former owner, which has noticed nothing until now */
    assert_false(fsio_exists(mine));
    assert_true(fsio_exists(theirs));
    assert_int_equal(d->b.owner.failures, failures + 1);
    assert_string_equal(d->b.owner.reason, "TAKEN_OVER");
    assert_null(sessions_find(d->b.all, token, "uid:1"));
    end_peer(peer);
    stop(d);
}

/* Neither daemon would have its alarm. */
static void a_snapshot_that_cannot_be_used_is_not_taken(void **state) {
    struct daemon_side *d = *state;
    struct daemon_side *peer = make_peer(d);
    char token[RESUME_TOKEN_SIZE], *text = NULL;
    size_t len = 0;
    struct session *s = make_stream(d, token);
    assert_int_equal(snapshot_read(d->dir, session_id(s), &text, &len, NULL), 0);
    assert_int_equal(snapshot_write(d->dir, session_id(s), text, len - 8, NULL), 0); /* its opening is whole */
    free(text);
    claim(peer, token);
    assert_int_equal(sessions_count(peer->b.all), 0);
    const struct session_store of = snapshot_store_for_sessions(peer->store);
    for (int i = 0; i < 2; i++, uv_run(&peer->loop, UV_RUN_DEFAULT))
        assert_int_equal(of.elsewhere(of.ctx, session_id(s)), i ? SESSION_ELSEWHERE : SESSION_PLACE_ASKED);
    round_of(d, 6000);
    assert_ptr_equal(sessions_find(d->b.all, token, "uid:1"), s); /* it has not moved */
    save_again(d, s);
    claim(peer, token);
    assert_int_equal(sessions_count(peer->b.all), 1);
    assert_int_equal(of.elsewhere(of.ctx, session_id(s)), SESSION_GONE); /* what was known of the other daemon is old */
    end_peer(peer);
    stop(d);
}

static struct ledger ledgers[2];

static void know(struct daemon_side *d, struct ledger *l) {
    *l = (struct ledger){0};
    d->b.all->config.alarms = (struct session_register){
        .on_in = ledger_on_in, .give = ledger_give, .receive = ledger_receive, .settle = ledger_settle, .ctx = l};
}

/* Until its alarms are settled. */
static void settle_all(struct daemon_side *d) {
    for (int i = 0; i < 4; i++) {
        later_ms += 6000;
        sessions_settle_alarms(d->b.all);
        round_of(d, 0);
    }
}

/* The snapshot that it took may be older than the alarm. */
static void an_alarm_goes_after_its_stream(void **state) {
    struct daemon_side *d = *state;
    struct daemon_side *peer = make_peer(d);
    char token[RESUME_TOKEN_SIZE], id[SESSION_ID_SIZE], name[64], path[1024], back[1024];
    for (int ended = 0; ended < 2; ended++) {
        know(d, &ledgers[0]);
        know(peer, &ledgers[1]);
        str_copy(id, sizeof id, session_id(make_stream(d, token)));
        str_copy(ledgers[0].on, sizeof ledgers[0].on, id);
        str_format(name, sizeof name, "%s.alarm", id);
        path_of(peer, "", name, path);
        path_of(d, "", name, back);
        settle_all(d);
        assert_string_equal(ledgers[0].on, id); /* it is here */
        claim(peer, token);
        if (ended)
            session_end(sessions_find(peer->b.all, token, "uid:1"), "uid:0", "");
        settle_all(d);
        assert_true(fsio_exists(path) && ledgers[0].moved == 1 && !*ledgers[0].on);
        round_of(peer, 6000);
        assert_true(ledgers[1].received == 1 && fsio_exists(path)); /* until its row is on the disk */
        round_of(peer, 6000);
        assert_true(ledgers[1].received == 1 && !fsio_exists(path));
        assert_string_equal(ledgers[1].on, id);
    }
    claim(peer, token);
    assert_int_equal(snapshot_write_alarm(d->dir, id, "a", 1, NULL), 0); /* by a third one, which was late */
    assert_int_equal(snapshot_remove(peer->dir, id, NULL), 0);
    round_of(d, 6000);
    assert_true(fsio_exists(path) && !fsio_exists(back));
    end_peer(peer);
    stop(d);
}

/* A daemon from which a stream is taken before it has taken its alarm gives up both: one of them knows whether it is over. */
static void an_alarm_on_its_way_goes_with_its_stream(void **state) {
    struct daemon_side *d = *state, *peer = make_peer(d);
    char token[RESUME_TOKEN_SIZE], id[SESSION_ID_SIZE], name[64], path[1024], back[1024];
    for (int over = 0; over < 4; over++) {
        know(d, &ledgers[0]);
        know(peer, &ledgers[1]);
        struct session *s = make_stream(d, token);
        str_copy(id, sizeof id, session_id(s));
        str_copy(ledgers[0].on, sizeof ledgers[0].on, id);
        str_format(name, sizeof name, "%s.alarm", id);
        path_of(peer, "", name, path);
        path_of(d, "", name, back);
        claim(peer, token);
        settle_all(d);
        closed(&d->b, s->stream);
        assert_true(fsio_exists(path) && !fsio_exists(back));
        struct session *there = sessions_find(peer->b.all, token, "uid:1");
        journal_alarm_id(id, there->notes.onset.first = over < 2 ? 5 : over == 2 ? 7 : 12, there->notes.alarm_id); /* a later one */
        there->notes.over = over ? 9 : -1;
        there->notes.alarm_off = (there->alarm = over == 3) ? -1 : there->notes.over;
        save_again(peer, there);
        str_copy(ledgers[0].on, sizeof ledgers[0].on, over ? id : ""); /* this daemon has not heard of the end */
        claim(d, token);
        assert_true(!fsio_exists(path) && fsio_exists(back));
        s = sessions_find(d->b.all, token, "uid:1");
        assert_true(over ? s->notes.alarm_known == -1 && s->notes.over == 9 : s->notes.alarm_known == 5);
        assert_int_equal(ledgers[0].received, !over);
        round_of(d, 6000);
        assert_false(fsio_exists(back));
        session_end(s, "uid:0", "");
    }
    end_peer(peer);
    stop(d);
}

/* An alarm that was written for the other daemon and ended here before it was let go says nothing of the next one. */
static void each_alarm_goes_after_its_stream(void **state) {
    struct daemon_side *d = *state;
    struct daemon_side *peer = make_peer(d);
    char token[RESUME_TOKEN_SIZE], id[SESSION_ID_SIZE], name[64], path[1024];
    know(d, &ledgers[0]);
    know(peer, &ledgers[1]);
    struct session *s = make_stream(d, token);
    str_copy(id, sizeof id, session_id(s));
    str_format(name, sizeof name, "%s.alarm", id);
    path_of(peer, "", name, path);
    for (int i = 0; i < 2; i++) {
        str_copy(ledgers[0].on, sizeof ledgers[0].on, id);
        claim(peer, token);
        for (int look = 0; look < 9 && !fsio_exists(path); look++) {
            later_ms += 6000;
            sessions_settle_alarms(d->b.all);
            round_of(d, 0);
        }
        assert_true(fsio_exists(path));
        ledgers[0].on[0] = '\0'; /* before the next look */
        closed(&d->b, s->stream);
        settle_all(d);
        if (i)
            break;
        assert_int_equal(snapshot_remove_beside(peer->dir, id, SNAPSHOT_ALARM, NULL), 0);
        claim(d, token);
        assert_non_null(s = sessions_find(d->b.all, token, "uid:1"));
    }
    end_peer(peer);
    stop(d);
}

/* Where the daemon that starts anew believes the session to be, once it has looked. */
static enum session_place place_after_start(struct daemon_side *d, const char *id) {
    stop(d);
    begin(d);
    snapshot_store_restore(d->store, d->b.all, d->b.metrics, 60 * 1000);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    const struct session_store of = snapshot_store_for_sessions(d->store);
    assert_int_equal(of.elsewhere(of.ctx, id), SESSION_PLACE_ASKED);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    return of.elsewhere(of.ctx, id);
}

static void a_stream_that_another_daemon_has_taken_has_moved(void **state) {
    struct daemon_side *d = *state;
    struct daemon_side *peer = make_peer(d);
    char token[RESUME_TOKEN_SIZE], id[SESSION_ID_SIZE], note[1024], back[1024], path[1024];
    str_copy(id, sizeof id, session_id(make_stream(d, token)));
    str_format(path, sizeof path, "%s.moved", id);
    path_of(d, "", path, note);
    path_of(peer, "", path, back);
    claim(peer, token);
    assert_true(fsio_exists(note) && !fsio_exists(back));
    assert_int_equal(place_after_start(d, id), SESSION_ELSEWHERE);
    assert_int_equal(snapshot_remove(peer->dir, id, NULL), 0); /* the stream ends there */
    assert_int_equal(place_after_start(d, id), SESSION_ELSEWHERE);
    assert_int_equal(place_after_start(d, "0123456789abcdef0123456789abcdef"), SESSION_GONE);
    const struct timespec then = {.tv_sec = clock_wall_ms() / 1000 - SNAPSHOT_MOVED_S - 60, .tv_nsec = 0},
                          long_ago[] = {then, then};
    assert_int_equal(utimensat(AT_FDCWD, note, long_ago, 0), 0);
    assert_int_equal(place_after_start(d, id), SESSION_ELSEWHERE); /* or the clock of this start is wrong */
    assert_false(fsio_exists(note));
    assert_int_equal(place_after_start(d, id), SESSION_GONE);
    end_peer(peer);
    stop(d);
}

static void a_stream_whose_client_is_away_moves_without_a_write(void **state) {
    struct daemon_side *d = *state;
    struct daemon_side *peer = make_peer(d);
    char token[RESUME_TOKEN_SIZE];
    session_leave(make_stream(d, token));
    round_of(d, 6000);
    assert_non_null(sessions_find(d->b.all, token, "uid:1"));
    claim(peer, token);
    round_of(d, 6000);
    assert_null(sessions_find(d->b.all, token, "uid:1"));
    assert_true(value(&d->b, "brrd_stream_sessions_closed_total", "ward\x1fmoved") == 1);
    end_peer(peer);
    stop(d);
}

static void a_stream_that_comes_back_has_not_moved(void **state) {
    struct daemon_side *d = *state;
    struct daemon_side *peer = make_peer(d);
    char token[RESUME_TOKEN_SIZE], path[1024], note[1024], id[SESSION_ID_SIZE];
    str_copy(id, sizeof id, session_id(make_stream(d, token)));
    str_format(path, sizeof path, "%s.moved", id);
    claim(peer, token);
    stop(d);
    begin(d);
    snapshot_store_restore(d->store, d->b.all, d->b.metrics, 60 * 1000);
    claim(d, token);
    path_of(d, "", path, note);
    assert_false(fsio_exists(note));
    path_of(peer, "", path, note);
    assert_true(fsio_exists(note));
    end_peer(peer);
    stop(d);
}

static void a_folder_that_does_not_answer_leaves_unknown_who_has_the_stream(void **state) {
    struct daemon_side *d = *state;
    struct daemon_side *peer = make_peer(d);
    const char *id = "0123456789abcdef0123456789abcdef";
    const struct session_store of = snapshot_store_for_sessions(d->store);
    assert_int_equal(of.elsewhere(of.ctx, id), SESSION_PLACE_ASKED);
    later_ms += 3000;
    assert_int_equal(of.elsewhere(of.ctx, id), SESSION_PLACE_UNKNOWN);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    assert_int_equal(of.elsewhere(of.ctx, id), SESSION_GONE); /* it has answered */
    entries = 0;
    assert_int_equal(place_after_start(d, id), SESSION_PLACE_UNKNOWN);
    entries = -1;
    end_peer(peer);
    stop(d);
}

static void a_snapshot_waits_for_no_claims_but_the_one_at_work(void **state) {
    struct daemon_side *d = *state;
    struct daemon_side *peer = make_peer(d);
    char token[RESUME_TOKEN_SIZE];
    int before = answers;
    for (int i = 0; i < 9; i++)
        ask_for(d, "0123456789abcdef0123456789abcdef");
    snapshot_store_for_sessions(d->store).end(d->store, "f0");
    struct session *s = alarm_stream(d, token);
    while (s->saves.saving)
        uv_run(&d->loop, UV_RUN_ONCE);
    assert_int_equal(answers, before + 1);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    assert_int_equal(answers, before + 9);
    end_peer(peer);
    stop(d);
}

static void a_stream_that_another_daemon_claims_brings_the_eeg_of_its_alarms(void **state) {
    struct daemon_side *d = *state;
    struct daemon_side *peer = make_peer(d);
    char token[RESUME_TOKEN_SIZE], mine[1024], theirs[1024];
    struct session *s = alarm_stream(d, token);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    eeg_of(d, s, mine);
    eeg_of(peer, s, theirs);
    assert_true(fsio_exists(mine));
    claim(peer, token);
    assert_false(fsio_exists(mine));
    assert_true(fsio_exists(theirs));
    struct live_report opened = report(last(&peer->b)->stream, LIVE_OPENED);
    opened.opened = calloc(1, sizeof *opened.opened);
    opened.eeg = new_ring();
    struct session *found = sessions_find(peer->b.all, token, "uid:1");
    sessions_report(peer->b.all, &opened);
    struct eegring_state kept;
    assert_non_null(found->back.eeg);
    eegring_describe(found->back.eeg, &kept);
    assert_true(kept.n_pins == 1 && kept.pins[0].first == 0 && kept.pins[0].end == 256);
    end_peer(peer);
    stop(d);
}

static void a_stream_that_came_back_goes_on_from_the_newest_snapshot(void **state) {
    struct daemon_side *d = *state;
    struct daemon_side *peer = make_peer(d);
    char token[RESUME_TOKEN_SIZE];
    struct session *s = make_stream(d, token);
    session_leave(s);
    claim(peer, token);
    struct session *there = sessions_find(peer->b.all, token, "uid:1");
    assert_ptr_equal(sessions_find(d->b.all, token, "uid:1"), s); /* out of date, and not known to be */
    there->duplicates = 7;
    save_again(peer, there);
    claim(d, token);
    assert_null(sessions_find(d->b.all, token, "uid:1")); /* the old one is on its way out */
    struct live_report r = report(s->stream, LIVE_CLOSED);
    sessions_report(d->b.all, &r);
    round_of(d, 0);
    struct session *back = sessions_find(d->b.all, token, "uid:1");
    assert_non_null(back);
    assert_int_equal(back->duplicates, 7);
    end_peer(peer);
    stop(d);
}

int main(void) {
#define STORE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up_daemon, tear_down_daemon)
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_snapshot_that_cannot_be_read_now_waits_and_is_tried_again),
        STORE_TEST(what_could_not_be_used_is_left_for_the_next_daemon),
        STORE_TEST(a_snapshot_keeps_its_model_while_it_exists),
        STORE_TEST(a_stream_that_fails_while_kept_models_are_listed_keeps_its_own),
        STORE_TEST(a_snapshot_is_durable_before_the_eeg_of_its_alarms),
        STORE_TEST(corrupt_snapshots_are_moved_aside),
        STORE_TEST(a_stream_whose_model_is_not_there_yet_is_restored_later),
        STORE_TEST(rejected_snapshots_are_pruned_at_the_start_and_with_the_next_one),
        STORE_TEST(live_streams_come_before_those_that_have_ended),
        STORE_TEST(a_stream_goes_on_at_the_daemon_that_claims_its_snapshot),
        STORE_TEST(a_snapshot_that_cannot_be_used_is_not_taken),
        STORE_TEST(a_stream_that_another_daemon_has_taken_has_moved),
        STORE_TEST(an_alarm_goes_after_its_stream),
        STORE_TEST(an_alarm_on_its_way_goes_with_its_stream),
        STORE_TEST(each_alarm_goes_after_its_stream),
        STORE_TEST(a_stream_whose_client_is_away_moves_without_a_write),
        STORE_TEST(a_stream_that_comes_back_has_not_moved),
        STORE_TEST(a_folder_that_does_not_answer_leaves_unknown_who_has_the_stream),
        STORE_TEST(a_snapshot_waits_for_no_claims_but_the_one_at_work),
        STORE_TEST(a_stream_that_another_daemon_claims_brings_the_eeg_of_its_alarms),
        STORE_TEST(a_stream_that_came_back_goes_on_from_the_newest_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
