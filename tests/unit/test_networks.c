#include "base/base.h"
#include "daemon/burst/networks.h"

#include "unit/burst_fixture.h"

/* Rings of neurons on the CPU: each fires the next, and all fire in every tick once all have fired. */
enum { RING = 100, BOX = 64 };

struct bench {
    struct device *device;
    struct mailbox *answers;
    struct networks *networks;
    int done;
};

static void count_done(struct network_order *o) { ((struct bench *)o->owner)->done++; }

static bool shared; /* callers have tokens */
static const char *caller = "";

static void open_networks(struct bench *b, int most, int64_t most_bytes) {
    const struct networks_config config = {
        .device = b->device, .most = most, .most_bytes = most_bytes, .shared = shared, .answers = b->answers};
    b->networks = networks_new(&config);
    assert_non_null(b->networks);
}

static struct observer_share share = {.most = OBSERVER_SHARED_BYTES};

static int set_up(void **state) {
    struct bench *b = calloc(1, sizeof *b);
    *state = b;
    ok(device_open(fixture_device(), 1, &b->device, &err));
    b->answers = mailbox_new(BOX, NULL, NULL);
    open_networks(b, 4, INT64_MAX);
    return 0;
}

static struct network_order *taken(struct bench *b) { return (struct network_order *)mailbox_take(b->answers); }

static int tear_down(void **state) {
    struct bench *b = *state;
    struct message *left = NULL;
    networks_free(b->networks, &left);
    assert_null(left);
    for (struct network_order *o; (o = taken(b));)
        network_order_free(o);
    mailbox_free(b->answers);
    device_close(b->device);
    free(b);
    return 0;
}

static struct connectome *make_ring(uint32_t n) {
    float *threshold = malloc(n * sizeof *threshold);
    uint32_t *src = malloc(n * sizeof *src), *dst = malloc(n * sizeof *dst);
    uint8_t *ones = malloc(n), *zeros = calloc(n, 1);
    struct connectome_area area = {.name = "ring"};
    struct connectome *c = NULL;
    for (uint32_t i = 0; i < n; i++) {
        threshold[i] = 1;
        src[i] = i;
        dst[i] = (i + 1) % n;
        ones[i] = 1;
    }
    const struct connectome_arrays a = {.neurons = n,
                                        .synapses = n,
                                        .threshold = threshold,
                                        .src = src,
                                        .dst = dst,
                                        .weight = ones,
                                        .psp = ones,
                                        .type = zeros,
                                        .areas = &area,
                                        .n_areas = 1};
    ok(connectome_new(&a, 0, &c, &err));
    free(threshold);
    free(src);
    free(dst);
    free(ones);
    free(zeros);
    return c;
}

static struct network_order *order(struct bench *b, enum network_order_kind kind, const char *name) {
    struct network_order *o = network_order_new(kind, name);
    assert_non_null(o);
    o->owner = b;
    o->done = count_done;
    str_copy(o->principal, sizeof o->principal, caller);
    return o;
}

/* Sends the order and returns it with its answer, which must have come at once; a patch is done in slices of time. */
static struct network_order *ask(struct bench *b, struct network_order *o) {
    const bool sliced = o->message.kind == NETWORK_PATCH;
    networks_order(b->networks, o);
    struct network_order *done = taken(b);
    for (int i = 0; !done && sliced && i < 1000; i++) {
        networks_step(b->networks);
        done = taken(b);
    }
    assert_ptr_equal(done, o);
    return o;
}

static int ask_code(struct bench *b, struct network_order *o) {
    int code = ask(b, o)->err.code;
    network_order_free(o);
    return code;
}

static int create(struct bench *b, const char *name, uint32_t neurons, int64_t budget) {
    struct network_order *o = order(b, NETWORK_CREATE, name);
    o->net = make_ring(neurons);
    o->budget_bytes = budget;
    return ask_code(b, o);
}

static struct network_order *step(struct bench *b, const char *name, int64_t ticks, bool want_fired) {
    struct network_order *o = order(b, NETWORK_STEP, name);
    o->ticks = ticks;
    o->want_fired = want_fired;
    return o;
}

/* Potentials for neurons 0 … n in the next tick. */
static int inject(struct bench *b, const char *name, int n) {
    struct network_order *o = order(b, NETWORK_INJECT, name);
    o->injections = calloc((size_t)n, sizeof *o->injections);
    o->count = n;
    o->next_tick = true;
    for (int i = 0; i < n; i++)
        o->injections[i] = (struct burst_injection){.id = (uint32_t)i, .potential = 5};
    return ask_code(b, o);
}

static struct network_info info_of(struct bench *b, const char *name) {
    struct network_order *o = ask(b, order(b, NETWORK_LIST, ""));
    struct network_info found = {.tick = -1};
    for (int i = 0; i < o->n_infos; i++)
        if (!strcmp(o->infos[i].name, name))
            found = o->infos[i];
    found.areas = NULL;
    network_order_free(o);
    return found;
}

/* ---- orders ---------------------------------------------------------------------------------------------------- */

static void a_network_is_made_steps_and_goes(void **state) {
    struct bench *b = *state;
    assert_int_equal(create(b, "one", RING, 1 << 20), 0);
    assert_int_equal(create(b, "one", RING, 1 << 20), ERR_EXISTS);
    assert_int_equal(inject(b, "one", 1), 0);
    struct network_order *o = step(b, "one", 5, true);
    networks_order(b->networks, o);
    while (networks_step(b->networks)) {
    }
    assert_ptr_equal(taken(b), o);
    assert_int_equal(o->ran, 5);
    assert_int_equal(o->n_frames, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(o->frames[i].tick, i + 1);
        assert_int_equal(o->ids[i], i);
    }
    network_order_free(o);
    assert_int_equal(info_of(b, "one").tick, 5);
    assert_int_equal(ask_code(b, order(b, NETWORK_DESTROY, "one")), 0);
    assert_int_equal(ask_code(b, order(b, NETWORK_DESTROY, "one")), ERR_NOT_FOUND);
    assert_false(networks_step(b->networks));
}

static struct network_order *order_of(struct bench *b, enum network_order_kind kind, const char *principal, bool all) {
    struct network_order *o = order(b, kind, kind == NETWORK_LIST ? "" : "ring");
    str_copy(o->principal, sizeof o->principal, principal);
    o->all = all;
    return o;
}

/* Others neither see it nor use it; a name stays taken. */
static void a_network_belongs_to_its_maker(void **state) {
    struct bench *b = *state;
    struct network_order *o = order_of(b, NETWORK_CREATE, "token:ana", false);
    o->net = make_ring(RING);
    o->budget_bytes = 1 << 20;
    assert_int_equal(ask_code(b, o), 0);
    assert_int_equal(ask_code(b, order_of(b, NETWORK_DESTROY, "token:bob", false)), ERR_NOT_FOUND);
    assert_int_equal(ask_code(b, order_of(b, NETWORK_INJECT, "token:bob", false)), ERR_NOT_FOUND);
    static const struct {
        const char *principal;
        bool all;
        int n;
    } lists[] = {{"token:ana", false, 1}, {"token:bob", false, 0}, {"token:bob", true, 1}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct network_order *list = ask(b, order_of(b, NETWORK_LIST, lists[i].principal, lists[i].all));
        assert_int_equal(list->n_infos, lists[i].n);
        network_order_free(list);
    }
    assert_int_equal(ask_code(b, order_of(b, NETWORK_DESTROY, "token:ana", false)), 0);
}

static void names_are_picked(void **state) {
    struct bench *b = *state;
    assert_int_equal(create(b, "net-1", RING, 1 << 20), 0);
    assert_int_equal(create(b, "", RING, 1 << 20), 0);
    assert_int_equal(info_of(b, "net-2").neurons, RING);
    char name[2 * NETWORK_NAME_SIZE];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(ask_code(b, order(b, NETWORK_DESTROY, name)), ERR_NOT_FOUND);
}

static void networks_take_turns(void **state) {
    struct bench *b = *state;
    struct network_order *long_one[2];
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "b" : "a";
        assert_int_equal(create(b, name, RING, 1 << 20), 0);
        networks_order(b->networks, long_one[i] = step(b, name, INT64_MAX, false));
    }
    for (int i = 0; i < 20; i++)
        assert_true(networks_step(b->networks));
    int64_t ticks = info_of(b, "a").tick;
    assert_true(ticks > 0 && info_of(b, "b").tick > 0);
    assert_int_equal(inject(b, "a", 3), 0); /* between two slices of its Step */
    networks_step(b->networks);
    networks_step(b->networks);
    assert_true(info_of(b, "a").fired_total >= 3);
}

static void one_caller_leaves_memory_to_others(void **state) {
    struct bench *b = *state;
    struct message *left = NULL;
    char name[] = "a";
    assert_int_equal(create(b, "probe", RING, 1 << 20), 0);
    const int64_t bytes = info_of(b, "probe").bytes;
    networks_free(b->networks, &left);
    shared = true;
    open_networks(b, 100, 10 * bytes);
    shared = false;
    caller = "token:x";
    for (; *name <= 'i'; ++*name)
        assert_int_equal(create(b, name, RING, 1 << 20), 0);
    assert_int_equal(create(b, "j", RING, 1 << 20), ERR_EXHAUSTED);
    caller = "";
    assert_int_equal(create(b, "j", RING, 1 << 20), 0);
}

static void bounds_are_kept(void **state) {
    struct bench *b = *state;
    struct message *left = NULL;
    assert_int_equal(create(b, "tight", 100000, 1 << 20), ERR_EXHAUSTED);
    assert_int_equal(create(b, "probe", RING, 1 << 20), 0);
    int64_t bytes = info_of(b, "probe").bytes;
    networks_free(b->networks, &left);
    open_networks(b, 2, 2 * bytes + 1);
    assert_int_equal(create(b, "a", RING, 1 << 20), 0);
    assert_int_equal(create(b, "b", 2 * RING, 1 << 20), ERR_EXHAUSTED);
    assert_int_equal(create(b, "b", RING, bytes), 0);
    assert_int_equal(create(b, "c", 1, 1 << 20), ERR_EXHAUSTED);
    assert_int_equal(inject(b, "b", RING), ERR_EXHAUSTED); /* no memory is left of its budget */
    struct network_order *steps[NETWORK_MOST_STEPS];
    for (int i = 0; i < NETWORK_MOST_STEPS; i++)
        networks_order(b->networks, steps[i] = step(b, "a", 1, false));
    assert_int_equal(ask_code(b, step(b, "a", 1, false)), ERR_EXHAUSTED);
    for (int i = 0; i < NETWORK_MOST_STEPS; i++) {
        assert_true(networks_step(b->networks));
        assert_ptr_equal(taken(b), steps[i]);
        network_order_free(steps[i]);
    }
}

/* All neurons fire in every tick. */
static int64_t bytes_after_injecting(struct bench *b, int64_t budget, int n, int *ret_code) {
    assert_int_equal(create(b, "n", RING, budget), 0);
    *ret_code = inject(b, "n", n);
    int64_t bytes = info_of(b, "n").bytes;
    struct network_order *o = step(b, "n", 1, false);
    networks_order(b->networks, o);
    while (networks_step(b->networks)) {
    }
    network_order_free(taken(b));
    assert_int_equal(info_of(b, "n").bytes, bytes); /* a tick takes nothing that was not counted before */
    assert_int_equal(ask_code(b, order(b, NETWORK_DESTROY, "n")), 0);
    return bytes;
}

static void injections_count_as_what_they_may_take(void **state) {
    struct bench *b = *state;
    int code;
    int64_t bytes = bytes_after_injecting(b, 1 << 24, RING, &code);
    assert_int_equal(code, 0);
    assert_int_equal(bytes_after_injecting(b, bytes, RING, &code), bytes);
    assert_int_equal(code, 0);
    assert_true(bytes_after_injecting(b, bytes - 1, RING, &code) < bytes);
    assert_int_equal(code, ERR_EXHAUSTED);
}

static void divisors_count(void **state) {
    struct bench *b = *state;
    assert_int_equal(create(b, "n", RING, 1 << 24), 0);
    int64_t bytes = info_of(b, "n").bytes;
    assert_int_equal(create(b, "tight", RING, bytes), 0);
    for (int i = 0; i < 2; i++) {
        struct network_order *o = order(b, NETWORK_PATCH, i ? "tight" : "n");
        o->changes = calloc(1, sizeof *o->changes);
        o->changes[0] = (struct network_change){.kind = NETWORK_SET_AREA, .psp_divide = true};
        o->count = 1;
        assert_int_equal(ask_code(b, o), i ? ERR_EXHAUSTED : 0);
    }
    assert_in_range(info_of(b, "n").bytes, bytes + 4 * RING, bytes + 8 * RING);
    assert_int_equal(info_of(b, "tight").bytes, bytes);
}

static void a_full_answer_ends_a_step(void **state) {
    struct bench *b = *state;
    assert_int_equal(create(b, "loud", 1000, 1 << 20), 0);
    assert_int_equal(inject(b, "loud", 1000), 0);
    struct network_order *o = step(b, "loud", 1000000, true);
    networks_order(b->networks, o);
    while (networks_step(b->networks)) {
    }
    assert_ptr_equal(taken(b), o);
    assert_int_equal(o->err.code, 0);
    assert_in_range(o->n_ids, NETWORK_FIRED_IDS, NETWORK_FIRED_IDS + 999);
    assert_int_equal(o->ran, info_of(b, "loud").tick);
    assert_int_equal(o->n_ids, o->ran * 1000);
    network_order_free(o);
}

static void a_lent_network_waits(void **state) {
    struct bench *b = *state;
    assert_int_equal(create(b, "lent", RING, 1 << 20), 0);
    assert_int_equal(inject(b, "lent", 1), 0);
    struct network_order *loan = ask(b, order(b, NETWORK_LEND, "lent"));
    assert_int_equal(loan->state.n_pending, 1);
    assert_int_equal(loan->lent->net.n, RING);
    struct network_order *ticks = step(b, "lent", 2, false), *gone = order(b, NETWORK_DESTROY, "lent");
    networks_order(b->networks, ticks);
    networks_order(b->networks, gone);
    assert_false(networks_step(b->networks));
    assert_null(taken(b));
    assert_int_equal(info_of(b, "lent").tick, 0);
    struct network_order *back = network_order_new(NETWORK_RETURN, "lent");
    networks_order(b->networks, back);
    assert_ptr_equal(taken(b), ticks); /* the Step had begun to wait when the network was destroyed */
    assert_int_equal(ticks->err.code, ERR_CANCELLED);
    assert_ptr_equal(taken(b), gone);
    assert_int_equal(gone->err.code, 0);
    network_order_free(loan);
    network_order_free(ticks);
    network_order_free(gone);
}

/* ---- several devices ------------------------------------------------------------------------------------------- */

enum { SHARED = 500, SHARED_TICKS = 25, MOST_SHARED = 8, MOST_SHARED_INJECTIONS = 256 };

struct shared {
    struct bench *bench;
    struct device *devices[MOST_SHARED]; /* beside the bench's own */
    struct drawn drawn;
    uint64_t trace;
};

static void share_network(struct shared *s, const char *name, int n) {
    struct network_order *o = order(s->bench, NETWORK_CREATE, name);
    ok(connectome_new(&s->drawn.arrays, 0, &o->net, &err));
    o->budget_bytes = 1 << 28;
    o->n_others = n - 1;
    memcpy(o->others, s->devices, sizeof s->devices);
    ok(ask_code(s->bench, o));
}

/* Random input for each tick, whose spikes and counts join the trace. */
static void step_shared(struct shared *s, const char *name, int64_t from) {
    for (int64_t tick = from; tick < from + SHARED_TICKS; tick++) {
        struct network_order *in = order(s->bench, NETWORK_INJECT, name), *o = step(s->bench, name, 1, true);
        in->injections = calloc(MOST_SHARED_INJECTIONS, sizeof *in->injections);
        in->count = drawn_injections(3, (uint64_t)tick, SHARED, in->injections, MOST_SHARED_INJECTIONS);
        ok(ask_code(s->bench, in));
        networks_order(s->bench->networks, o);
        while (networks_step(s->bench->networks)) {
        }
        assert_ptr_equal(taken(s->bench), o);
        assert_int_equal(o->ran, 1);
        s->trace = (s->trace ^ (uint64_t)o->events) * 0x100000001b3u;
        for (int64_t i = 0; i < o->n_ids; i++)
            s->trace = (s->trace ^ o->ids[i]) * 0x100000001b3u;
        network_order_free(o);
    }
}

/* A neuron that fires at any input, one that is deleted, and a membrane. */
static void change_shared(struct shared *s, const char *name) {
    static const struct network_change changes[] = {{.kind = NETWORK_SET_NEURON, .id = 7, .field = BURST_THRESHOLD, .value = -1e6},
                                                    {.kind = NETWORK_DELETE_NEURON, .id = SHARED - 2},
                                                    {.kind = NETWORK_SET_NEURON, .id = SHARED / 2, .field = BURST_V, .value = 1e6}};
    struct network_order *o = order(s->bench, NETWORK_PATCH, name);
    o->changes = malloc(sizeof changes);
    memcpy(o->changes, changes, sizeof changes);
    o->count = sizeof changes / sizeof *changes;
    ok(ask_code(s->bench, o));
}

static struct network_order *borrow(struct shared *s, const char *name) {
    struct network_order *loan = ask(s->bench, order(s->bench, NETWORK_LEND, name));
    ok(loan->err.code);
    assert_int_equal(loan->lent->synapses, s->drawn.arrays.synapses);
    networks_order(s->bench->networks, network_order_new(NETWORK_RETURN, name));
    return loan;
}

/* A network's spikes, and its membranes at the end, when `second` devices go on from what `first` have saved. */
static uint64_t run_shared(struct shared *s, int first, int second, float v[SHARED]) {
    s->trace = 0;
    share_network(s, "first", first);
    assert_int_equal(info_of(s->bench, "first").synapses, s->drawn.arrays.synapses);
    change_shared(s, "first");
    step_shared(s, "first", 1);
    struct network_order *loan = borrow(s, "first"), *o = order(s->bench, NETWORK_REPLACE, "second");
    assert_true(loan->lent->net.threshold[7] == -1e6f && !loan->state.alive[SHARED - 2]);
    share_network(s, "second", second);
    ok(connectome_new(&s->drawn.arrays, 0, &o->net, &err));
    o->state = loan->state;
    loan->state = (struct burst_state){0};
    ok(ask_code(s->bench, o));
    step_shared(s, "second", 1 + SHARED_TICKS);
    struct network_order *end = borrow(s, "second");
    memcpy(v, end->state.v, SHARED * sizeof *v);
    network_order_free(loan);
    network_order_free(end);
    ok(ask_code(s->bench, order(s->bench, NETWORK_DESTROY, "first")));
    ok(ask_code(s->bench, order(s->bench, NETWORK_DESTROY, "second")));
    return s->trace;
}

static void devices_share_a_network(void **state) {
    static const int numbers[][2] = {{1, 1}, {2, 3}, {3, 1}, {4, 2}, {8, 4}, {1, 8}};
    struct shared s = {.bench = *state};
    float expected[SHARED], v[SHARED];
    uint64_t trace = 0;
    for (int i = 0; i < MOST_SHARED; i++)
        ok(device_open(fixture_device(), 1, &s.devices[i], &err));
    drawn_init(&s.drawn, 7, SHARED, SHARED * 20, DRAWN_LATE, DRAWN_EVERYTHING | DRAWN_CURRENTS);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint64_t found = run_shared(&s, numbers[i][0], numbers[i][1], i ? v : expected);
        trace = i ? trace : found;
        assert_int_equal(found, trace);
        assert_true(found != 0);
        assert_memory_equal(i ? v : expected, expected, sizeof v);
    }
    share_network(&s, "fixed", 3);
    struct network_order *o = order(s.bench, NETWORK_PATCH, "fixed");
    o->changes = calloc(1, sizeof *o->changes);
    o->changes[0].kind = NETWORK_SET_SYNAPSE;
    o->count = 1;
    assert_int_equal(ask_code(s.bench, o), ERR_UNSUPPORTED);
    ok(ask_code(s.bench, order(s.bench, NETWORK_DESTROY, "fixed")));
    for (int i = 0; i < MOST_SHARED; i++)
        device_close(s.devices[i]);
    drawn_free(&s.drawn);
}

static void an_order_whose_caller_left_does_nothing(void **state) {
    struct bench *b = *state;
    atomic_bool left;
    atomic_init(&left, false);
    assert_int_equal(create(b, "n", RING, 1 << 20), 0);
    struct network_order *o = step(b, "n", INT64_MAX, false);
    o->gone = &left;
    networks_order(b->networks, o);
    assert_true(networks_step(b->networks));
    assert_null(taken(b));
    atomic_store(&left, true);
    assert_true(networks_step(b->networks));
    assert_ptr_equal(taken(b), o);
    assert_int_equal(o->err.code, ERR_CANCELLED);
    network_order_free(o);
    o = order(b, NETWORK_DESTROY, "n");
    o->gone = &left;
    assert_int_equal(ask_code(b, o), ERR_CANCELLED);
    assert_true(info_of(b, "n").tick > 0);
}

static void what_nobody_takes_is_left(void **state) {
    struct bench *b = *state;
    struct message *left = NULL;
    assert_int_equal(create(b, "n", RING, 1 << 20), 0);
    struct network_order *o = step(b, "n", INT64_MAX, false);
    networks_order(b->networks, o);
    mailbox_close(b->answers);
    networks_free(b->networks, &left);
    assert_ptr_equal(left, &o->message);
    assert_null(left->next);
    network_order_free(o);
    mailbox_free(b->answers);
    b->answers = mailbox_new(BOX, NULL, NULL);
    open_networks(b, 1, 1 << 20);
}

static void a_change_that_fails_is_named(void **state) {
    struct bench *b = *state;
    assert_int_equal(create(b, "n", RING, 1 << 20), 0);
    struct network_order *o = order(b, NETWORK_PATCH, "n");
    o->changes = calloc(3, sizeof *o->changes);
    o->count = 3;
    o->changes[0] = (struct network_change){.kind = NETWORK_SET_NEURON, .id = 5, .field = BURST_THRESHOLD, .value = 100};
    o->changes[1] = (struct network_change){.kind = NETWORK_DELETE_SYNAPSE, .synapse = {.source = 0, .target = 50}};
    o->changes[2] = (struct network_change){.kind = NETWORK_DELETE_NEURON, .id = 1};
    assert_int_equal(ask(b, o)->err.code, ERR_NOT_FOUND);
    assert_int_equal(o->failed, 1);
    network_order_free(o);
    assert_int_equal(inject(b, "n", 2), 0);
    o = step(b, "n", 10, true);
    networks_order(b->networks, o);
    while (networks_step(b->networks)) {
    }
    assert_ptr_equal(taken(b), o);
    assert_int_equal(o->ids[o->n_ids - 1], 4); /* neuron 1 fired, neuron 5 did not */
    network_order_free(o);
}

/* Changes that take many slices. */
static struct network_order *long_patch(struct bench *b, const char *name, int64_t n) {
    struct network_order *o = order(b, NETWORK_PATCH, name);
    o->changes = calloc((size_t)n, sizeof *o->changes);
    assert_non_null(o->changes);
    o->count = n;
    for (int64_t i = 0; i < n; i++) {
        uint32_t source = (uint32_t)(i % RING);
        o->changes[i] = (struct network_change){
            .kind = NETWORK_SET_SYNAPSE,
            .synapse = {.source = source, .target = (source + 1) % RING, .weight = 1 + (int)(i % 7), .psp = -1, .type = -1}};
    }
    return o;
}

static void a_long_patch_lets_others_work(void **state) {
    struct bench *b = *state;
    assert_int_equal(create(b, "patched", RING, 1 << 20), 0);
    assert_int_equal(create(b, "other", RING, 1 << 20), 0);
    struct network_order *patch = long_patch(b, "patched", 1000 * 1000), *ticks = step(b, "other", 3, false),
                         *after = step(b, "patched", 1, false), *loan = order(b, NETWORK_LEND, "patched");
    networks_order(b->networks, patch);
    networks_order(b->networks, after);
    networks_order(b->networks, loan);
    networks_order(b->networks, ticks);
    struct network_order *first = NULL, *then = NULL;
    for (int slices = 0; !then; slices++) {
        assert_true(slices < 100000 && networks_step(b->networks));
        if (!first && (first = taken(b)))
            assert_true(slices > 0);
        then = first ? taken(b) : NULL;
    }
    assert_ptr_equal(first, ticks); /* its network had a turn while changes were made */
    assert_ptr_equal(then, patch);
    assert_int_equal(patch->err.code, 0);
    assert_int_equal(patch->infos[0].tick, 0); /* no tick saw half of the changes */
    assert_ptr_equal(taken(b), loan);          /* it waited; and now it holds up the Step */
    int last = (int)(patch->count - 1);
    assert_int_equal(connectome_at(loan->lent, (uint32_t)last % RING, 0).weight, 1 + last % 7);
    networks_order(b->networks, network_order_new(NETWORK_RETURN, "patched"));
    assert_true(networks_step(b->networks));
    assert_ptr_equal(taken(b), after);
    assert_int_equal(after->ran, 1);
    network_order_free(ticks);
    network_order_free(patch);
    network_order_free(loan);
    network_order_free(after);
}

static void a_patch_ends_with_its_caller_or_the_networks(void **state) {
    struct bench *b = *state;
    struct message *left = NULL;
    atomic_bool gone;
    atomic_init(&gone, false);
    assert_int_equal(create(b, "n", RING, 1 << 20), 0);
    struct network_order *o = long_patch(b, "n", 1000 * 1000);
    o->gone = &gone;
    networks_order(b->networks, o);
    atomic_store(&gone, true);
    assert_true(networks_step(b->networks));
    assert_ptr_equal(taken(b), o);
    assert_int_equal(o->err.code, ERR_CANCELLED);
    assert_true(o->changed > 0 && o->failed == o->changed && o->changed < o->count);
    network_order_free(o);
    o = long_patch(b, "n", 1000 * 1000);
    networks_order(b->networks, o);
    mailbox_close(b->answers);
    networks_free(b->networks, &left);
    assert_ptr_equal(left, &o->message);
    assert_int_equal(o->err.code, ERR_CANCELLED);
    network_order_free(o);
    mailbox_free(b->answers);
    b->answers = mailbox_new(BOX, NULL, NULL);
    open_networks(b, 1, 1 << 20);
}

/* ---- observers ------------------------------------------------------------------------------------------------- */

static void count_wake(void *ctx) { ++*(atomic_int *)ctx; }

static void a_full_observer_loses_the_oldest(void **state) {
    (void)state;
    atomic_int wakes;
    atomic_init(&wakes, 0);
    int64_t missed = 0;
    bool ended = false;
    struct observer *o = observer_new(3, &share, count_wake, &wakes);
    const uint32_t ids[2] = {4, 7};
    for (uint64_t tick = 1; tick <= 5; tick++) {
        const struct burst_frame f = {.tick = tick, .ids = ids, .fired = 2, .candidates = 9};
        observer_add(o, &f);
    }
    assert_int_equal(wakes, 1); /* not again before the reader has found none */
    for (uint64_t tick = 3; tick <= 5; tick++) {
        struct observer_frame *f = observer_take(o, &missed, &ended);
        assert_non_null(f);
        assert_int_equal(f->tick, tick);
        assert_int_equal(f->fired, 2);
        assert_int_equal(f->ids[1], 7);
        observer_frame_free(f);
    }
    assert_null(observer_take(o, &missed, &ended));
    assert_int_equal(missed, 2);
    assert_false(ended);
    observer_end(o);
    assert_int_equal(wakes, 2);
    assert_null(observer_take(o, &missed, &ended));
    assert_true(ended);
    observer_release(o);
}

static void bytes_of_an_observer_are_bounded(void **state) {
    (void)state;
    atomic_int wakes;
    atomic_init(&wakes, 0);
    enum { FIRED = 1 << 20 }; /* 4 MiB a frame */
    uint32_t *ids = calloc(FIRED, sizeof *ids);
    struct observer *o = observer_new(OBSERVER_MOST_FRAMES, &share, count_wake, &wakes), *small;
    int64_t missed = 0;
    bool ended = false;
    for (uint64_t tick = 1; tick <= 10; tick++) {
        const struct burst_frame f = {.tick = tick, .ids = ids, .fired = FIRED};
        observer_add(o, &f);
    }
    struct observer_frame *first = observer_take(o, &missed, &ended);
    assert_int_equal(first->tick, 8); /* three fit into 16 MiB */
    assert_int_equal(missed, 7);
    observer_frame_free(first);
    observer_leave(o);
    assert_true(observer_has_left(o));
    const struct burst_frame late = {.tick = 11, .ids = ids, .fired = 1};
    observer_add(o, &late);
    assert_null(observer_take(o, &missed, &ended));
    observer_release(o);
    small = observer_new(1, &share, count_wake, &wakes);
    observer_add(small, &late);
    observer_release(small); /* with a frame that nobody took */
    free(ids);
}

static void observers_share_their_bytes(void **state) {
    (void)state;
    enum { FIRED = 1000, FRAME = FIRED * sizeof(uint32_t) + sizeof(struct observer_frame) };
    atomic_int wakes;
    atomic_init(&wakes, 0);
    uint32_t ids[FIRED] = {0};
    struct observer_share tight = {.most = 3 * FRAME};
    struct observer *slow = observer_new(100, &tight, count_wake, &wakes), *quick = observer_new(100, &tight, count_wake, &wakes);
    int64_t missed = 0;
    bool ended = false;
    struct burst_frame f = {.ids = ids, .fired = FIRED};
    for (f.tick = 1; f.tick <= 5; f.tick++)
        observer_add(slow, &f);
    assert_int_equal(tight.used, 3 * FRAME);
    observer_add(quick, &f);
    assert_null(observer_take(quick, &missed, &ended));
    assert_int_equal(missed, 1);
    struct observer_frame *held = observer_take(slow, &missed, &ended);
    assert_int_equal(held->tick, 3);
    assert_int_equal(missed, 2);
    observer_add(quick, &f); /* what is taken and not freed counts */
    assert_null(observer_take(quick, &missed, &ended));
    assert_int_equal(missed, 2);
    observer_frame_free(held);
    observer_add(quick, &f);
    observer_frame_free(observer_take(quick, &missed, &ended));
    f.fired = 4 * FIRED; /* more than all share: never read, since not even an empty queue has room */
    observer_add(slow, &f);
    assert_null(observer_take(slow, &missed, &ended));
    assert_int_equal(missed, 5);
    assert_int_equal(tight.used, 0);
    observer_release(slow);
    observer_release(quick);
}

enum { FRAMES = 20000 };

static void *add_frames(void *arg) {
    const uint32_t ids[3] = {1, 2, 3};
    for (uint64_t tick = 1; tick <= FRAMES; tick++) {
        const struct burst_frame f = {.tick = tick, .ids = ids, .fired = (int64_t)(tick % 4)};
        observer_add(arg, &f);
    }
    observer_end(arg);
    observer_release(arg);
    return NULL;
}

static void every_frame_is_read_or_counted(void **state) {
    (void)state;
    atomic_int wakes;
    atomic_init(&wakes, 0);
    struct observer *o = observer_new(16, &share, count_wake, &wakes);
    pthread_t thread;
    int64_t missed = 0, got = 0;
    uint64_t last = 0;
    bool ended = false;
    observer_hold(o);
    assert_int_equal(pthread_create(&thread, NULL, add_frames, o), 0);
    while (!ended) {
        struct observer_frame *f = observer_take(o, &missed, &ended);
        if (!f)
            continue;
        ended = false; /* more may wait */
        assert_true(f->tick > last && f->fired == (int64_t)(f->tick % 4));
        last = f->tick;
        got++;
        observer_frame_free(f);
    }
    pthread_join(thread, NULL);
    assert_int_equal(got + missed, FRAMES);
    assert_int_equal(last, FRAMES);
    observer_release(o);
}

static void observers_see_the_ticks_of_their_network(void **state) {
    struct bench *b = *state;
    atomic_int wakes;
    atomic_init(&wakes, 0);
    struct observer *seen = observer_new(100, &share, count_wake, &wakes);
    int64_t missed = 0;
    bool ended = false;
    assert_int_equal(create(b, "n", RING, 1 << 20), 0);
    struct network_order *o = order(b, NETWORK_OBSERVE, "n");
    o->observer = seen;
    observer_hold(seen);
    assert_int_equal(ask_code(b, o), 0);
    assert_int_equal(info_of(b, "n").observers, 1);
    assert_int_equal(inject(b, "n", 1), 0);
    o = step(b, "n", 7, false);
    networks_order(b->networks, o);
    while (networks_step(b->networks)) {
    }
    network_order_free(taken(b));
    for (uint32_t tick = 1; tick <= 7; tick++) {
        struct observer_frame *f = observer_take(seen, &missed, &ended);
        assert_int_equal(f->tick, tick);
        assert_int_equal(f->ids[0], tick - 1);
        observer_frame_free(f);
    }
    assert_int_equal(ask_code(b, order(b, NETWORK_DESTROY, "n")), 0);
    assert_null(observer_take(seen, &missed, &ended));
    assert_true(ended);
    observer_leave(seen);
    observer_release(seen);
}

int main(void) {
    if (getenv("BRR_TEST_FILTER"))
        cmocka_set_test_filter(getenv("BRR_TEST_FILTER"));
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_network_is_made_steps_and_goes),
        TEST(a_network_belongs_to_its_maker),
        TEST(names_are_picked),
        TEST(networks_take_turns),
        TEST(one_caller_leaves_memory_to_others),
        TEST(bounds_are_kept),
        TEST(injections_count_as_what_they_may_take),
        TEST(divisors_count),
        TEST(a_full_answer_ends_a_step),
        TEST(a_lent_network_waits),
        TEST(devices_share_a_network),
        TEST(an_order_whose_caller_left_does_nothing),
        TEST(what_nobody_takes_is_left),
        TEST(a_change_that_fails_is_named),
        TEST(a_long_patch_lets_others_work),
        TEST(a_patch_ends_with_its_caller_or_the_networks),
        cmocka_unit_test(a_full_observer_loses_the_oldest),
        cmocka_unit_test(bytes_of_an_observer_are_bounded),
        cmocka_unit_test(observers_share_their_bytes),
        cmocka_unit_test(every_frame_is_read_or_counted),
        TEST(observers_see_the_ticks_of_their_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
