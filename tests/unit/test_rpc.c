/* rpc: whichever allocation fails, a client gets all answers or an error, and the next call is served; so does one that watches a
 * job, and one that sends a stream, whose results are whole. */
#include "base/base.h"
#include "daemon/models/serveddb.h"
#include "daemon/rpc/errands.h"
#include "daemon/rpc/rpc.h"

#include <sys/socket.h>
#include <uv.h>

#include "brr/v1/checkpoints.pb-c.h"
#include "brr/v1/jobs.pb-c.h"
#include "brr/v1/stream.pb-c.h"
#include "client/brr.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"
#include "unit/temp_dir.h"

/* Which calloc of the loop thread fails from now on, 0 = none (the linker's --wrap). */
static atomic_int fails;
static pthread_t loop_thread;
void *__real_calloc(size_t n, size_t size);
__attribute__((visibility("default"))) void *__wrap_calloc(size_t n, size_t size); /* the linker looks for it from libbrr.so too */
void *__wrap_calloc(size_t n, size_t size) {
    if (atomic_load(&fails) && pthread_equal(pthread_self(), loop_thread) && atomic_fetch_sub(&fails, 1) == 1)
        return NULL;
    return __real_calloc(n, size);
}

/* While `held`, no volume answers who looks for a model. */
static atomic_bool held;
static atomic_int waiting;
char *__real_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved) {
    static const struct timespec turn = {.tv_nsec = 1000 * 1000};
    atomic_fetch_add(&waiting, 1);
    while (atomic_load(&held))
        nanosleep(&turn, NULL);
    atomic_fetch_sub(&waiting, 1);
    return __real_realpath(path, resolved);
}

/* The loop's time runs ahead as far as the test says, or stands still. */
static atomic_uint_fast64_t ahead_ms, still_ms;
uint64_t __real_uv_now(const uv_loop_t *loop);
uint64_t __wrap_uv_now(const uv_loop_t *loop);
uint64_t __wrap_uv_now(const uv_loop_t *loop) {
    const uint64_t still = atomic_load(&still_ms);
    return still ? still : __real_uv_now(loop) + atomic_load(&ahead_ms);
}

/* The user that the unix socket sees behind new connections; 0 = the real one. */
static atomic_uint user;
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len) {
    int rc = __real_getsockopt(fd, level, name, value, len);
    if (name == SO_PEERCRED && atomic_load(&user))
        ((struct ucred *)value)->uid = atomic_load(&user);
    return rc;
}

enum { OWN = 3 /* methods beside those of the services */, ANSWERS = 3, MAX_CALLS = 600, TIMEOUT_MS = 60 * 1000 };

struct bench {
    char dir[256], endpoint[300];
    uv_loop_t loop;
    uv_timer_t tick;
    uv_check_t turn;
    uv_async_t stop, asks;
    struct errands *errands;
    pthread_t thread;
    struct metrics *metrics;
    struct auth *auth;
    struct db *db;
    struct places places;
    struct mailbox *orders; /* of streams */
    struct services services;
    struct rpc_server *server;
    brr_client *client;
};

/* ---- the server ---- */

static int answer(struct rpc_call *call, const void *request, struct err *err) {
    (void)err;
    for (int i = 0; i < ANSWERS; i++)
        convert_send(call, request);
    return rpc_finish(call, NULL);
}

/* A client stream whose messages are counted, and how many of them one turn of the loop handled. */
static atomic_int counted, most_in_a_turn;
static atomic_bool loop_held;
static int count_message(struct rpc_call *call, const void *request, struct err *err) {
    (void)call, (void)request, (void)err;
    atomic_fetch_add(&counted, 1);
    return 0;
}

/* A method that answers in a later turn of the loop, or never. */
static struct rpc_call *kept;
static atomic_bool answers_later, errands_end;
static atomic_int kept_ends;
static int keep_call(struct rpc_call *call, const void *request, struct err *err) {
    (void)request, (void)err;
    kept = call;
    return 0;
}

static void end_kept(struct rpc_call *call) {
    (void)call;
    kept = NULL;
    atomic_fetch_add(&kept_ends, 1);
}

static const struct rpc_method late = {RPC_METHOD("/test.Late/List", ROLE_READ, brr__v1__list_jobs_request, keep_call),
                                       .end = end_kept};

/* A method that answers until its call is full, and in every second turn of the loop anew, until it hears of room. */
static atomic_int room_said; /* by rpc_send */
static int fill_call(struct rpc_call *call, const void *request, struct err *err) {
    static const uint8_t data[8000];
    while (rpc_send(call, data, sizeof data))
        atomic_fetch_add(&room_said, 1);
    return atomic_load(&room_said) > RPC_SEND_MAX ? rpc_finish(call, NULL) : keep_call(call, request, err);
}
static void end_of_filling(struct rpc_call *call) { rpc_finish(call, NULL); }
static const struct rpc_method filling = {RPC_METHOD("/test.Fill/Up", ROLE_READ, brr__v1__get_job_request, fill_call),
                                          .writable = end_of_filling, .end = end_kept};

static void on_turn(uv_check_t *turn) {
    static int before, turns;
    (void)turn;
    if (kept && atomic_load(&room_said) && turns++ % 2)
        fill_call(kept, NULL, NULL);
    const int now = atomic_load(&counted);
    if (now - before > atomic_load(&most_in_a_turn))
        atomic_store(&most_in_a_turn, now - before);
    before = now;
    while (atomic_load(&loop_held))
        uv_sleep(1);
}

/* A whole message of both. */
static const char hello[] = "\x0a\x05hello";
enum { HELLO_BYTES = sizeof hello - 1 };

static const struct rpc_method flood = {RPC_METHOD("/test.Flood/Count", ROLE_READ, brr__v1__get_job_request, count_message),
                                        .client_stream = true, .max_message = 100, .idle_ms = RPC_FILE_IDLE_MS};
static const struct rpc_method method = {RPC_METHOD("/test.Echo/Three", ROLE_READ, brr__v1__get_job_request, answer),
                                         .max_message = 100};
static const struct rpc_method *methods[64] = {&method, &flood, &filling};

static int no_model(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    (void)ctx, (void)ret;
    return err_set(err, ERR_NOT_FOUND, "no model %s", ref);
}

static int64_t wall_ms(void) { return 1000; }

/* A scheduler with a job that has ended. */
static int make_job(struct bench *b) {
    char path[300];
    struct job *job = job_new();
    str_copy(job->id, sizeof job->id, "train-1");
    str_copy(job->kind, sizeof job->kind, "train");
    job->sequence = 1;
    job->state = JOB_SUCCEEDED;
    job->yaml = strdup("kind: train\n");
    job->file = strdup("t.yaml");
    job->overrides = strdup("[]");
    job->request_id = strdup("");
    str_format(path, sizeof path, "%s/jobs.sqlite", b->dir);
    int rc = db_open(path, &b->db, NULL) || jobdb_setup(b->db, NULL) || serveddb_setup(b->db, NULL) || jobdb_save(b->db, job, NULL);
    job_free(job);
    b->places = (struct places){.data_dir = b->dir, .results_dir = b->dir};
    const struct sched_config config = {.db = b->db,
                                        .rules = {.places = &b->places, .refer_model = no_model},
                                        .cache_dir = b->dir,
                                        .max_queued = 10,
                                        .keep_finished_ms = -1,
                                        .places = {{"cpu", "cpu"}},
                                        .versions = "",
                                        .wall_ms = wall_ms};
    return rc ? rc : sched_open(&config, &b->services.sched, NULL);
}

/* ---- the device worker's side of streams ---- */

enum { SECONDS_OF_RESULT = 1 };

static bool take_order(void *ctx, struct live_order *o) { return mailbox_post(ctx, &o->message); }

static struct live_opened *describe(void) {
    struct live_opened *o = __real_calloc(1, sizeof *o);
    str_copy(o->info.file.montage, sizeof o->info.file.montage, "referential-19");
    o->info.file.frontend.montage = o->info.file.montage;
    return o;
}

/* A result with an event, a flat channel and a second of burst suppression. */
static struct live_report *make_result(struct live_stream *stream) {
    struct live_report *r = __real_calloc(1, sizeof *r);
    *r = (struct live_report){.message.kind = LIVE_RESULT, .stream = stream, .samples = 256, .n_events = 1, .channels = 1};
    r->events = __real_calloc(1, sizeof *r->events);
    r->quality.n = r->n_suppression = SECONDS_OF_RESULT;
    r->quality.channels = __real_calloc(1, sizeof *r->quality.channels);
    r->quality.channels[0].flaws = QUALITY_FLAT;
    r->suppression = __real_calloc(1, sizeof *r->suppression);
    r->channel_suppression = __real_calloc(2, sizeof *r->channel_suppression);
    return r;
}

static void tell(struct sessions *all, struct live_report *r) {
    sessions_report(all, r);
    live_report_free(r);
}

/* Answers the orders that came: a stream has one result, when it is finished. */
static void work(struct bench *b) {
    for (struct message *m; (m = mailbox_take(b->orders));) {
        struct live_order *o = (struct live_order *)m;
        struct live_report *answer = live_order_answer(o);
        if (m->kind == LIVE_OPEN)
            answer->opened = describe();
        if (m->kind == LIVE_FINISH)
            tell(b->services.sessions, make_result(o->stream));
        if (answer)
            tell(b->services.sessions, answer);
        live_order_free(o);
    }
}

static void on_tick(uv_timer_t *tick) {
    struct bench *b = tick->data;
    rpc_server_tick(b->server);
    sessions_tick(b->services.sessions, 1000);
    db_writer_turn(sched_writer(b->services.sched));
    work(b);
    const Brr__V1__ListJobsResponse none = BRR__V1__LIST_JOBS_RESPONSE__INIT;
    if (kept && atomic_load(&answers_later))
        convert_answer(kept, &none.base);
}

static void on_stopped(void *ctx) {
    struct bench *b = ctx;
    uv_close((uv_handle_t *)&b->tick, NULL);
    uv_close((uv_handle_t *)&b->turn, NULL);
    uv_close((uv_handle_t *)&b->stop, NULL);
    uv_close((uv_handle_t *)&b->asks, NULL);
}

static void on_stop(uv_async_t *stop) {
    errands_stop(((struct bench *)stop->data)->errands);
    rpc_server_stop(((struct bench *)stop->data)->server, on_stopped, stop->data);
}

static void on_asks(uv_async_t *asks) {
    struct bench *b = asks->data;
    errands_take(b->errands, b->server);
    if (atomic_load(&errands_end))
        errands_stop(b->errands);
}
static void wake(void *ctx) { uv_async_send(ctx); }

static void *run(void *arg) {
    struct bench *b = arg;
    uv_run(&b->loop, UV_RUN_DEFAULT);
    return NULL;
}

static const struct metric_family families[] = {COUNTER("brrd_auth_failures_total", "Refused.", "reason")};

static int set_up(void **state) {
    struct bench *b = calloc(1, sizeof *b);
    const struct rpc_method *const served[] = {svc_jobs, svc_stream, svc_models};
    char path[280];
    void *dir = NULL;
    *state = b;
    if (temp_dir_make(&dir))
        return -1;
    str_copy(b->dir, sizeof b->dir, dir);
    free(dir);
    str_format(path, sizeof path, "%s/rpc.sock", b->dir);
    str_format(b->endpoint, sizeof b->endpoint, "unix:%s", path);
    b->metrics = metrics_new(families, 1, 16);
    const struct auth_config auth = {.metrics = b->metrics};
    struct rpc_config config = {.listeners = {.unix_path = path, .unix_mode = 0600},
                                .methods = methods,
                                .n_methods = OWN,
                                .limits.calls = MAX_CALLS,
                                .max_unsent_bytes = 1 << 20,
                                .ctx = &b->services};
    for (size_t i = 0; i < sizeof served / sizeof *served; i++)
        for (const struct rpc_method *m = served[i]; m->path; m++)
            methods[config.n_methods++] = m;
    if (make_job(b) || auth_new(&auth, &config.auth, NULL))
        return -1;
    b->auth = config.auth;
    uv_loop_init(&b->loop);
    b->orders = mailbox_new(1000, NULL, NULL);
    const struct sessions_config sessions = {
        .post = take_order, .post_ctx = b->orders, .max_sessions = 10, .max_waiting_bytes = 1 << 20};
    const struct models_config models = {.db = b->db,
                                         .writer = sched_writer(b->services.sched),
                                         .post = take_order,
                                         .post_ctx = b->orders,
                                         .loop = &b->loop,
                                         .places = &b->places};
    b->services.loop = &b->loop;
    b->services.sessions = sessions_new(&sessions);
    atomic_store(&b->services.ready.serving, true);
    if (models_new(&models, &b->services.models, NULL))
        return -1;
    uv_timer_init(&b->loop, &b->tick);
    uv_check_init(&b->loop, &b->turn);
    uv_check_start(&b->turn, on_turn);
    uv_async_init(&b->loop, &b->stop, on_stop);
    uv_async_init(&b->loop, &b->asks, on_asks);
    b->tick.data = b->stop.data = b->asks.data = b;
    b->errands = errands_new(wake, &b->asks);
    if (rpc_server_start(&b->loop, &config, &b->server, NULL) || brr_connect(b->endpoint, &b->client, NULL))
        return -1;
    uv_timer_start(&b->tick, on_tick, 5, 5);
    if (pthread_create(&b->thread, NULL, run, b))
        return -1;
    loop_thread = b->thread;
    return 0;
}

static int tear_down(void **state) {
    struct bench *b = *state;
    brr_disconnect(b->client);
    uv_async_send(&b->stop);
    pthread_join(b->thread, NULL);
    rpc_server_free(b->server);
    errands_free(b->errands);
    uv_loop_close(&b->loop);
    auth_free(b->auth);
    metrics_free(b->metrics);
    work(b);
    sessions_free(b->services.sessions);
    mailbox_free(b->orders);
    models_free(b->services.models);
    sched_close(b->services.sched);
    db_close(b->db);
    fsio_remove_tree(b->dir, NULL);
    free(b);
    return 0;
}

/* ---- its client ---- */

struct ask {
    const char *path;
    const void *data;
    size_t len;
    int answers;
    bool (*whole)(const void *data, size_t len); /* true if an answer lacks nothing; may be NULL */
    const char *wrong;                           /* what no error may say; may be NULL */
};
static const struct ask three = {"/test.Echo/Three", hello, HELLO_BYTES, ANSWERS, NULL, NULL};

/* What ended a call: BRR_END or an error; *ret_answers: how many came before. */
static int call(struct bench *b, const struct ask *ask, int *ret_answers) {
    struct brr_error err = {0};
    const void *data;
    size_t len;
    brr_rpc *rpc = NULL;
    int n = 0, rc = brr_rpc_open(b->client, ask->path, TIMEOUT_MS, &rpc, &err);
    if (!rc)
        rc = brr_rpc_send(rpc, ask->data, ask->len, -1, &err);
    if (!rc)
        rc = brr_rpc_half_close(rpc, &err);
    while (rc >= 0 && !(rc = brr_rpc_next(rpc, -1, &data, &len, &err))) {
        n += len > 0;
        if (ask->whole)
            assert_true(ask->whole(data, len));
    }
    brr_rpc_close(rpc);
    if (rc < 0 && ask->wrong)
        assert_null(strstr(err.message, ask->wrong));
    *ret_answers = n;
    return rc;
}

static void assert_served(struct bench *b, const struct ask *ask) {
    int n = 0;
    assert_int_equal(call(b, ask, &n), BRR_END);
    assert_int_equal(n, ask->answers);
}

/* Each allocation of the call fails once: the client hears all, or an error. */
static void fail_each(struct bench *b, const struct ask *ask) {
    int failed = 0;
    assert_served(b, ask); /* the listener is open */
    for (bool all = false; !all; failed++) {
        int n = 0;
        atomic_store(&fails, failed + 1);
        int rc = call(b, ask, &n);
        all = atomic_exchange(&fails, 0) > 0; /* none failed: the call makes fewer */
        assert_int_not_equal(rc, BRR_DEADLINE);
        assert_true(rc != BRR_END || n == ask->answers);
        assert_served(b, ask);
    }
    assert_true(failed > ask->answers);
}

static void a_listener_from_which_no_call_could_be_requested_is_tried_again(void **state) {
    struct bench *b = *state;
    atomic_store(&fails, 2); /* after the listener itself */
    assert_served(b, &three);
    assert_int_equal(atomic_load(&fails), 0);
}

/* One call of a new client, seen as this user. */
static int call_as(struct bench *b, unsigned uid) {
    struct bench other = *b;
    int answers = 0;
    atomic_store(&user, uid);
    assert_int_equal(brr_connect(b->endpoint, &other.client, NULL), 0);
    int rc = call(&other, &three, &answers);
    brr_disconnect(other.client);
    atomic_store(&user, 0);
    return rc;
}

/* Sends a message and waits until the daemon has handled it. */
static void send_counted(brr_rpc *rpc) {
    struct brr_error err;
    const int before = atomic_load(&counted);
    assert_int_equal(brr_rpc_send(rpc, hello, HELLO_BYTES, -1, &err), 0);
    while (atomic_load(&counted) == before)
        uv_sleep(1);
}

static void more_users_than_listeners_are_served_one_after_the_other(void **state) {
    struct bench *b = *state;
    struct brr_error err;
    brr_rpc *open = NULL;
    assert_int_equal(brr_rpc_open(b->client, "/test.Flood/Count", TIMEOUT_MS, &open, &err), 0);
    send_counted(open); /* from now on the call keeps its listener */
    for (unsigned i = 1; i <= LISTENERS_MAX + 6; i++)
        assert_int_equal(call_as(b, 100000 + i), BRR_UNAUTHENTICATED); /* heard, and without a role */
    assert_int_equal(call_as(b, 100001), BRR_UNAUTHENTICATED);         /* again, through a new listener */
    send_counted(open);
    brr_rpc_close(open);
    assert_served(b, &three);
}

static void no_allocation_that_fails_loses_an_answer_or_a_client(void **state) { fail_each(*state, &three); }

static void no_allocation_that_fails_hides_the_end_of_a_job(void **state) {
    Brr__V1__WatchJobRequest in = BRR__V1__WATCH_JOB_REQUEST__INIT;
    uint8_t data[64];
    in.id = (char *)(uintptr_t) "train-1";
    const struct ask watch = {"/brr.v1.Jobs/Watch", data, brr__v1__watch_job_request__pack(&in, data), 1, NULL, NULL};
    fail_each(*state, &watch);
}

/* True unless it is a Result that lacks its event, its quality or its burst suppression. */
static bool result_is_whole(const void *data, size_t len) {
    Brr__V1__ServerMessage *m = brr__v1__server_message__unpack(NULL, len, data);
    assert_non_null(m);
    const Brr__V1__Result *r = m->kind_case == BRR__V1__SERVER_MESSAGE__KIND_RESULT ? m->result : NULL;
    bool whole = !r || (r->n_events == 1 && r->quality && r->quality->n_flat == 1 && r->n_suppression == SECONDS_OF_RESULT);
    brr__v1__server_message__free_unpacked(m, NULL);
    return whole;
}

/* Open of a stream whose second channel has this label. Any file is a model: the worker here opens none. */
static size_t pack_open_of(const char *model, const char *label, uint8_t *data) {
    const char *channels[] = {"C3", label};
    Brr__V1__ClientMessage in = BRR__V1__CLIENT_MESSAGE__INIT;
    Brr__V1__Open open = BRR__V1__OPEN__INIT;
    open.model = (char *)(uintptr_t)model;
    open.channels = (char **)(uintptr_t)channels;
    open.n_channels = 2;
    open.rate_hz = 256;
    open.format = BRR__V1__SAMPLE_FORMAT__SAMPLE_FORMAT_F32_UV;
    in.kind_case = BRR__V1__CLIENT_MESSAGE__KIND_OPEN;
    in.open = &open;
    return brr__v1__client_message__pack(&in, data);
}

static size_t pack_open(const struct bench *b, const char *label, uint8_t *data) {
    char model[300];
    str_format(model, sizeof model, "%s/jobs.sqlite", b->dir);
    return pack_open_of(model, label, data);
}

static void no_allocation_that_fails_loses_a_result_of_a_stream(void **state) {
    uint8_t data[1000];
    const struct ask stream = {"/brr.v1.Stream/Run", data, pack_open(*state, "C4", data), 4, result_is_whole, "without an Open"};
    fail_each(*state, &stream); /* Opened, Result, Ack, Summary */
}

/* A stream with a longer label is refused when it opens: its snapshot could not be restored. */
static void a_label_is_no_longer_than_a_snapshot_can_hold(void **state) {
    char label[SESSION_LABEL_SIZE + 1];
    uint8_t data[1000];
    int n = 0;
    memset(label, 'x', sizeof label);
    label[SESSION_LABEL_SIZE - 1] = '\0';
    struct ask stream = {"/brr.v1.Stream/Run", data, pack_open(*state, label, data), 4, result_is_whole, NULL};
    assert_served(*state, &stream);
    label[SESSION_LABEL_SIZE - 1] = 'x';
    label[SESSION_LABEL_SIZE] = '\0';
    stream.len = pack_open(*state, label, data);
    assert_int_equal(call(*state, &stream, &n), BRR_INVALID);
    static const char *const control[] = {"C3\033[2J", "C3\n", "\x7f", "\xc2\x9b"};
    for (size_t i = 0; i < sizeof control / sizeof *control; i++) {
        str_copy(label, sizeof label, control[i]);
        stream.len = pack_open(*state, label, data);
        assert_int_equal(call(*state, &stream, &n), BRR_INVALID);
    }
}

/* The thread pool has other work than models on a volume that does not answer. */
static void a_volume_that_does_not_answer_holds_few_threads(void **state) {
    enum { STREAMS = 10, MOST = 4 };
    struct bench *b = *state;
    uint8_t data[1000];
    const size_t len = pack_open(b, "C4", data);
    brr_rpc *rpc[STREAMS];
    const void *answer = NULL;
    struct brr_error err = {0};
    size_t n = 0;
    atomic_store(&held, true);
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(brr_rpc_open(b->client, "/brr.v1.Stream/Run", TIMEOUT_MS, &rpc[i], &err), 0);
        assert_int_equal(brr_rpc_send(rpc[i], data, len, -1, &err), 0);
        assert_int_equal(brr_rpc_half_close(rpc[i], &err), 0);
    }
    for (int i = 0; i < 20; i++)
        assert_int_equal(brr_rpc_next(rpc[i % STREAMS], 20, &answer, &n, &err), BRR_AGAIN);
    brr_rpc_close(rpc[0]); /* whether it is looked for or waits */
    brr_rpc_close(rpc[STREAMS - 1]);
    int at_once = atomic_load(&waiting);
    atomic_store(&held, false);
    assert_int_equal(at_once, MOST);
    for (int i = 1; i < STREAMS - 1; i++) {
        int rc = 0;
        while (!rc)
            rc = brr_rpc_next(rpc[i], -1, &answer, &n, &err);
        brr_rpc_close(rpc[i]);
        assert_int_equal(rc, BRR_END);
    }
}

/* More calls of one class than the pool has threads wait for a volume: their caller holds half of the threads of that class, and
 * calls of other classes are answered. */
static void calls_that_hang_leave_the_pool_to_other_classes(void **state) {
    enum { CALLS = 20, MOST = 2 };
    struct bench *b = *state;
    char model[300];
    uint8_t data[1000], open[1000];
    brr_rpc *rpc[CALLS];
    struct brr_error err = {0};
    const void *answer = NULL;
    size_t got = 0;
    int n = 0;
    Brr__V1__DescribeModelRequest in = BRR__V1__DESCRIBE_MODEL_REQUEST__INIT;
    str_format(model, sizeof model, "%s/jobs.sqlite", b->dir);
    in.name = model;
    const size_t len = brr__v1__describe_model_request__pack(&in, data);
    atomic_store(&held, true);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(brr_rpc_open(b->client, "/brr.v1.Models/Describe", TIMEOUT_MS, &rpc[i], &err), 0);
        assert_int_equal(brr_rpc_send(rpc[i], data, len, -1, &err), 0);
        assert_int_equal(brr_rpc_half_close(rpc[i], &err), 0);
    }
    for (int i = 0; i < 10; i++)
        assert_int_equal(brr_rpc_next(rpc[i % CALLS], 20, &answer, &got, &err), BRR_AGAIN);
    const struct ask stream = {"/brr.v1.Stream/Run", open, pack_open_of("upload:none", "C4", open), 0, NULL, NULL};
    assert_int_equal(call(b, &stream, &n), BRR_NOT_FOUND);
    assert_int_equal(atomic_load(&waiting), MOST);
    for (int i = 0; i < CALLS; i++)
        brr_rpc_close(rpc[i]);
    atomic_store(&held, false);
    while (atomic_load(&waiting))
        uv_sleep(1);
}

/* As many calls as may be open, whose messages the loop does not handle in one turn: its timers and other events have their turn
 * between them. */
static void a_flood_of_calls_is_bounded_and_leaves_the_loop_its_turns(void **state) {
    enum { CALLS = MAX_CALLS, MOST = 256 };
    struct bench *b = *state;
    struct brr_error err = {0};
    brr_rpc *rpc[CALLS], *another = NULL;
    const int before = atomic_load(&counted);
    const void *answer = NULL;
    size_t len = 0;
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(brr_rpc_open(b->client, flood.path, TIMEOUT_MS, &rpc[i], &err), 0);
        assert_int_equal(brr_rpc_send(rpc[i], hello, HELLO_BYTES, -1, &err), 0);
    }
    while (atomic_load(&counted) < before + CALLS)
        uv_sleep(1);
    assert_int_equal(brr_rpc_open(b->client, three.path, TIMEOUT_MS, &another, &err), 0);
    assert_int_equal(brr_rpc_next(another, -1, &answer, &len, &err), BRR_EXHAUSTED);
    assert_string_equal(err.reason, "OVERLOADED");
    brr_rpc_close(another);
    atomic_store(&most_in_a_turn, 0);
    atomic_store(&loop_held, true);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(brr_rpc_send(rpc[i], hello, HELLO_BYTES, -1, &err), 0);
    uv_sleep(300); /* until most of them have come */
    atomic_store(&loop_held, false);
    while (atomic_load(&counted) < before + 2 * CALLS)
        uv_sleep(1);
    for (int i = 0; i < CALLS; i++)
        brr_rpc_close(rpc[i]);
    assert_in_range(atomic_load(&most_in_a_turn), 1, MOST);
}

/* However fast its client sends, a stream is read at a bounded rate, and nothing of it is lost. Another stream of the same caller
 * is read meanwhile. */
static void a_stream_is_read_no_faster_than_its_rate(void **state) {
    enum { MORE = 500 };
    struct bench *b = *state;
    struct brr_error err = {0};
    brr_rpc *rpc = NULL, *other = NULL;
    const int before = atomic_load(&counted);
    atomic_store(&still_ms, 1000 * 1000);
    assert_int_equal(brr_rpc_open(b->client, flood.path, TIMEOUT_MS, &rpc, &err), 0);
    assert_int_equal(brr_rpc_open(b->client, flood.path, TIMEOUT_MS, &other, &err), 0);
    for (int i = 0; i < RPC_MESSAGES_BURST + MORE; i++)
        assert_int_equal(brr_rpc_send(rpc, hello, HELLO_BYTES, -1, &err), 0);
    while (atomic_load(&counted) < before + RPC_MESSAGES_BURST)
        uv_sleep(1);
    assert_int_equal(brr_rpc_send(other, hello, HELLO_BYTES, -1, &err), 0);
    while (atomic_load(&counted) == before + RPC_MESSAGES_BURST)
        uv_sleep(1);
    uv_sleep(20 * RPC_PACE_MS);
    assert_int_equal(atomic_load(&counted), before + RPC_MESSAGES_BURST + 1);
    atomic_store(&still_ms, 0);
    atomic_fetch_add(&ahead_ms, 1000 * 1000 + 1000 * MORE / RPC_MESSAGES_S);
    while (atomic_load(&counted) < before + RPC_MESSAGES_BURST + 1 + MORE)
        uv_sleep(1);
    brr_rpc_close(rpc);
    brr_rpc_close(other);
}

/* The call ends when so much time has passed since the daemon began to wait for its client, which may be later than now. */
static void assert_idle_after(brr_rpc *rpc, int ms) {
    struct brr_error err;
    const void *answer;
    size_t len = 0;
    int rc = BRR_AGAIN;
    while (rc == BRR_AGAIN) {
        atomic_fetch_add(&ahead_ms, ms + 1000);
        rc = brr_rpc_next(rpc, 200, &answer, &len, &err);
    }
    assert_int_equal(rc, BRR_DEADLINE);
    assert_string_equal(err.reason, "CLIENT_IDLE");
}

static void a_client_that_sends_no_message_does_not_keep_its_call(void **state) {
    struct bench *b = *state;
    struct brr_error err;
    const void *answer;
    size_t len = 0;
    static const char *const paths[] = {"/test.Echo/Three", "/brr.v1.Stream/Run"};
    for (int i = 0; i < 2; i++) {
        brr_rpc *rpc = NULL;
        assert_int_equal(brr_rpc_open(b->client, paths[i], TIMEOUT_MS, &rpc, &err), 0);
        assert_int_equal(brr_rpc_next(rpc, 50, &answer, &len, &err), BRR_AGAIN);
        assert_idle_after(rpc, RPC_FIRST_MESSAGE_MS);
        brr_rpc_close(rpc);
    }
    assert_served(b, &three);
}

/* Uploads are such calls. */
static void a_client_that_sends_nothing_more_does_not_keep_its_call(void **state) {
    struct bench *b = *state;
    struct brr_error err;
    const void *answer;
    size_t len = 0;
    brr_rpc *rpc = NULL;
    assert_int_equal(brr_rpc_open(b->client, flood.path, TIMEOUT_MS, &rpc, &err), 0);
    send_counted(rpc);
    atomic_fetch_add(&ahead_ms, RPC_FILE_IDLE_MS / 2);
    assert_int_equal(brr_rpc_next(rpc, 50, &answer, &len, &err), BRR_AGAIN);
    assert_idle_after(rpc, RPC_FILE_IDLE_MS);
    brr_rpc_close(rpc);
    int uploads = 0;
    const struct rpc_method *const files[] = {svc_burst_files, svc_checkpoint_files};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (const struct rpc_method *m = files[i]; m->path; m++) {
            uploads += m->client_stream;
            assert_true(!m->client_stream || m->idle_ms == RPC_FILE_IDLE_MS);
        }
    assert_int_equal(uploads, 3);
}

/* The list of jobs, asked for by another thread of the process. */
static int ask(struct bench *b, const struct rpc_method *m, const struct auth_caller *caller, size_t *ret_jobs,
               struct errand_answer *ret, struct err *err) {
    const Brr__V1__ListJobsRequest request = BRR__V1__LIST_JOBS_REQUEST__INIT;
    const int rc = errands_run(b->errands, &(struct errand){m, caller, &request.base}, ret, err);
    Brr__V1__ListJobsResponse *jobs = rc ? NULL : brr__v1__list_jobs_response__unpack(NULL, ret->len, ret->data);
    *ret_jobs = jobs ? jobs->n_jobs : 0;
    brr__v1__list_jobs_response__free_unpacked(jobs, NULL);
    free(ret->data);
    return rc;
}

static const struct rpc_method *method_at(const char *route) {
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i] && methods[i]->route && !strcmp(methods[i]->route, route))
            return methods[i];
    return NULL;
}

static void a_thread_that_asks_for_a_caller_passes_what_callers_pass(void **state) {
    struct bench *b = *state;
    const struct rpc_method *list = method_at("/api/v1/jobs"),
                            admins = {SAME_MEMBERS(*list, path, request, message), .role = ROLE_ADMIN};
    struct auth_caller ward = {.name = "token:ward", .listener = "http", .peer = "here", .role = ROLE_READ, .all = true},
                       other = {.name = "token:other", .listener = "http", .peer = "here", .role = ROLE_READ};
    struct errand_answer answer;
    struct err err = {0};
    size_t jobs = 0;
    int rc = 0, asked = 0;
    assert_int_equal(ask(b, list, &ward, &jobs, &answer, &err), 0);
    assert_int_equal(jobs, 1);
    assert_int_equal(ask(b, &admins, &ward, &jobs, &answer, &err), ERR_DENIED);
    assert_string_equal(answer.reason, "ROLE_TOO_SMALL");
    atomic_store(&answers_later, true);
    assert_int_equal(ask(b, &late, &ward, &jobs, &answer, &err), 0);
    atomic_store(&answers_later, false);
    assert_int_equal(ask(b, &late, &ward, &jobs, &answer, &err), ERR_UNAVAILABLE);
    assert_string_equal(answer.reason, "UNAVAILABLE");
    while (atomic_load(&kept_ends) < 2) /* nobody waits for it any more */
        uv_sleep(1);
    while (!(rc = ask(b, list, &ward, &jobs, &answer, &err)) && asked < 100 * ERRANDS_BURST)
        asked++;
    assert_int_equal(rc, ERR_EXHAUSTED); /* a machine that needs a quarter of a second for each would go on */
    assert_in_range(asked, ERRANDS_BURST - 5, 100 * ERRANDS_BURST);
    assert_true(answer.retry_after_ms > 0);
    assert_int_equal(ask(b, list, &other, &jobs, &answer, &err), 0); /* others are answered meanwhile */
    assert_served(b, &three);
    atomic_store(&errands_end, true);
    assert_int_equal(ask(b, &late, &other, &jobs, &answer, &err), ERR_UNAVAILABLE);
    assert_string_equal(answer.reason, "DRAINING");
    assert_int_equal(ask(b, list, &other, &jobs, &answer, &err), ERR_UNAVAILABLE);
    assert_string_equal(answer.reason, "DRAINING");
}

/* Who heard that a call is full hears of room, also if it answers meanwhile: acks leave while a stream is held. */
static void a_call_that_is_full_stays_so_until_there_is_room_again(void **state) {
    const struct ask fill = {filling.path, hello, HELLO_BYTES, 0, NULL, NULL};
    int n = 0;
    assert_int_equal(call(*state, &fill, &n), BRR_END);
    assert_in_range(atomic_load(&room_said), 1, RPC_SEND_MAX);
}

/* What has a route needs no more than the role read: nothing that changes or that waits for news has one. */
static void routes_are_of_lists_alone(void **state) {
    static const char *const expected[] = {"/api/v1/jobs", "/api/v1/streams", "/api/v1/alarms", "/api/v1/beds", "/api/v1/models"};
    const struct rpc_method *all[96];
    size_t n = services_methods(all, sizeof all / sizeof *all), routes = 0;
    (void)state;
    for (size_t i = 0; i < n; i++)
        if (all[i]->route) {
            routes++;
            assert_true(STR_AMONG(all[i]->route, expected) >= 0);
            assert_true(str_ends(all[i]->path, "/List") && all[i]->role == ROLE_READ && all[i]->answer);
            assert_false(all[i]->client_stream);
        }
    assert_int_equal(routes, sizeof expected / sizeof *expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_listener_from_which_no_call_could_be_requested_is_tried_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_users_than_listeners_are_served_one_after_the_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_client_that_sends_no_message_does_not_keep_its_call, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_client_that_sends_nothing_more_does_not_keep_its_call, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_allocation_that_fails_loses_an_answer_or_a_client, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_allocation_that_fails_hides_the_end_of_a_job, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_allocation_that_fails_loses_a_result_of_a_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_volume_that_does_not_answer_holds_few_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_that_hang_leave_the_pool_to_other_classes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_label_is_no_longer_than_a_snapshot_can_hold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flood_of_calls_is_bounded_and_leaves_the_loop_its_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_is_read_no_faster_than_its_rate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_thread_that_asks_for_a_caller_passes_what_callers_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_call_that_is_full_stays_so_until_there_is_room_again, set_up, tear_down),
        cmocka_unit_test(routes_are_of_lists_alone),
    };
    setenv("UV_THREADPOOL_SIZE", "16", 1); /* brrd has more */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
