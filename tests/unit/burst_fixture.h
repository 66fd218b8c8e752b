/* burst_fixture: networks and engines for the tests of the burst engine. A network is written down by its arrays, as a file has
 * them; an engine runs on the device and the instruction set that the test names. */
#pragma once

#include "unit/cmocka_all.h"

#include "base/base.h"
#include "base/rng.h"
#include "burst/burst.h"

enum { FIXTURE_SMALL = 64 };

static struct err err;

static inline void ok(int rc) {
    if (rc)
        fail_msg("%s: %s (%s)", err_name(rc), err.message, err.cause);
}

/* ---- engines --------------------------------------------------------------------------------------------------- */

struct engine {
    struct device *device;
    struct stream *stream;
    struct burst *b;
};

static inline const char *fixture_device(void) {
    const char *name = getenv("BRR_TEST_DEVICE");
    return name ? name : "cpu";
}

static inline void engine_open(struct engine *e, const char *device, int threads) {
    *e = (struct engine){0};
    ok(device_open(device, threads, &e->device, &err));
    ok(stream_open(e->device, STREAM_NORMAL, &e->stream, &err));
}

static inline void engine_load(struct engine *e, const struct connectome_arrays *a, const struct burst_options *o) {
    struct connectome *c = NULL;
    burst_free(e->b);
    e->b = NULL;
    ok(connectome_new(a, 0, &c, &err));
    ok(burst_new(e->stream, c, o, &e->b, &err));
}

static inline void engine_close(struct engine *e) {
    burst_free(e->b);
    stream_close(e->stream);
    device_close(e->device);
    *e = (struct engine){0};
}

/* ---- small networks, written down by hand ---------------------------------------------------------------------- */

struct small {
    float v[FIXTURE_SMALL], threshold[FIXTURE_SMALL], threshold_limit[FIXTURE_SMALL], leak[FIXTURE_SMALL],
        excitability[FIXTURE_SMALL];
    uint16_t refractory[FIXTURE_SMALL], fire_limit[FIXTURE_SMALL], snooze[FIXTURE_SMALL];
    uint8_t accumulate[FIXTURE_SMALL], weight[FIXTURE_SMALL], psp[FIXTURE_SMALL], type[FIXTURE_SMALL], delay[FIXTURE_SMALL];
    uint32_t area[FIXTURE_SMALL], src[FIXTURE_SMALL], dst[FIXTURE_SMALL];
    struct connectome_area areas[2];
    struct connectome_arrays arrays;
    struct engine e;
    uint64_t events;
    int64_t fired[FIXTURE_SMALL * FIXTURE_SMALL][2], n_fired;
};

/* n neurons with threshold 1 that keep what they get, two areas without flags, no synapse. */
static inline void small_init(struct small *s, int n) {
    *s = (struct small){0};
    for (int i = 0; i < FIXTURE_SMALL; i++) {
        s->threshold[i] = s->excitability[i] = 1;
        s->accumulate[i] = s->delay[i] = 1;
    }
    s->arrays = (struct connectome_arrays){.neurons = n,
                                           SAME_MEMBERS(*s, threshold, v, threshold_limit, leak, excitability, refractory,
                                                        fire_limit, snooze, accumulate, area, src, dst, weight, psp, type, areas),
                                           .n_areas = 2};
    engine_open(&s->e, fixture_device(), 1);
}

/* weight below 0: inhibitory. */
static inline void small_join(struct small *s, uint32_t src, uint32_t dst, int weight, int psp) {
    int64_t i = s->arrays.synapses++;
    assert_true(i < FIXTURE_SMALL);
    s->src[i] = src;
    s->dst[i] = dst;
    s->weight[i] = (uint8_t)abs(weight);
    s->type[i] = weight < 0;
    s->psp[i] = (uint8_t)psp;
}
static inline void small_start(struct small *s) { engine_load(&s->e, &s->arrays, NULL); }
static inline void small_end(struct small *s) { engine_close(&s->e); }

static inline void small_note(void *ctx, const struct burst_frame *frame) {
    struct small *s = ctx;
    s->events = frame->events;
    for (int64_t i = 0; i < frame->fired; i++) {
        assert_true(s->n_fired < FIXTURE_SMALL * FIXTURE_SMALL);
        s->fired[s->n_fired][0] = (int64_t)frame->tick;
        s->fired[s->n_fired++][1] = frame->ids[i];
    }
}
static inline void small_inject(struct small *s, uint32_t id, float potential) {
    const struct burst_injection one = {burst_tick(s->e.b) + 1, id, potential};
    ok(burst_inject(s->e.b, &one, 1, &err));
}
/* An input that is above every threshold. */
static inline void kick(struct small *s, uint32_t id) { small_inject(s, id, 1e6f); }
static inline void small_step(struct small *s, int ticks) { ok(burst_step(s->e.b, ticks, small_note, s, &err)); }
/* Whether the neuron fired in the newest tick. */
static inline bool small_fires(const struct small *s, int64_t id) {
    for (int64_t i = 0; i < s->n_fired; i++)
        if (s->fired[i][0] == (int64_t)burst_tick(s->e.b) && s->fired[i][1] == id)
            return true;
    return false;
}
static inline float small_v(struct small *s, int id) {
    float v[FIXTURE_SMALL];
    ok(burst_membranes(s->e.b, v, &err));
    return v[id];
}
/* Neuron 0 gets `potential` in every tick: "1_1" = it fires, does not, fires. */
static inline void expect_train(struct small *s, float potential, const char *expected) {
    char train[128];
    size_t n = strlen(expected);
    for (size_t i = 0; i < n; i++) {
        small_inject(s, 0, potential);
        small_step(s, 1);
        train[i] = small_fires(s, 0) ? '1' : '_';
    }
    train[n] = 0;
    assert_string_equal(train, expected);
}

/* ---- random networks ------------------------------------------------------------------------------------------- */

/* Arrays drawn from a seed: mixed signs, refractory times, limits, windows, chances, neurons that do not accumulate, four areas of
 * which one divides, one is mp-driven, one both; targets drawn evenly, some sources with many more. */
struct drawn {
    struct connectome_arrays arrays;
    struct connectome_area areas[4];
    struct rng rng;
    void *memory[20];
    int n_memory;
};

static inline void *drawn_take(struct drawn *d, size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    assert_non_null(p);
    assert_true(d->n_memory < 20);
    return d->memory[d->n_memory++] = p;
}
static inline void drawn_free(struct drawn *d) {
    for (int i = 0; i < d->n_memory; i++)
        free(d->memory[i]);
}
static inline bool drawn_chance(struct drawn *d, double p) { return rng_uniform(&d->rng) < p; }

/* Traits that some neurons of a drawn network have; drawn_init removes the others from all neurons. DRAWN_CURRENTS: exponential
 * synapses, and areas that drive all their neurons. */
enum { DRAWN_CHANCES = 1, DRAWN_LIMITS = 2, DRAWN_DIVISION = 4, DRAWN_EVERYTHING = 7, DRAWN_CURRENTS = 8 };
/* One p a row; p of its own for each synapse; sums beyond 32 bits; delays of up to DRAWN_DELAYS ticks, without and with such sums.
 */
enum drawn_form { DRAWN_PACKED, DRAWN_WIDE, DRAWN_HEAVY, DRAWN_LATE, DRAWN_LATE_HEAVY };
enum { DRAWN_DELAYS = 9 };

static inline void draw_neurons(struct drawn *d, int64_t n) {
    float *threshold = drawn_take(d, (size_t)n * 4), *v = drawn_take(d, (size_t)n * 4), *limit = drawn_take(d, (size_t)n * 4),
          *leak = drawn_take(d, (size_t)n * 4), *excitability = drawn_take(d, (size_t)n * 4);
    uint16_t *refractory = drawn_take(d, (size_t)n * 2), *fire_limit = drawn_take(d, (size_t)n * 2),
             *snooze = drawn_take(d, (size_t)n * 2);
    uint8_t *accumulate = drawn_take(d, (size_t)n);
    uint32_t *area = drawn_take(d, (size_t)n * 4);
    for (int64_t i = 0; i < n; i++) {
        threshold[i] = (float)(50 + 450 * rng_uniform(&d->rng));
        v[i] = drawn_chance(d, 0.5) ? 0 : (float)(100 * rng_uniform(&d->rng) - 50);
        limit[i] = drawn_chance(d, 0.1) ? threshold[i] * 20 : 0;
        leak[i] = drawn_chance(d, 0.2) ? 0 : drawn_chance(d, 0.1) ? 1 : (float)rng_uniform(&d->rng);
        excitability[i] = drawn_chance(d, 0.5) ? 1 : (float)rng_uniform(&d->rng);
        refractory[i] = (uint16_t)rng_below(&d->rng, 4);
        fire_limit[i] = drawn_chance(d, 0.3) ? (uint16_t)(1 + rng_below(&d->rng, 4)) : drawn_chance(d, 0.5) ? 0 : 65535;
        snooze[i] = (uint16_t)rng_below(&d->rng, 5);
        accumulate[i] = !drawn_chance(d, 0.2);
        area[i] = (uint32_t)rng_below(&d->rng, 4);
    }
    struct connectome_arrays *a = &d->arrays;
    a->neurons = n;
    a->threshold = threshold;
    a->v = v;
    a->threshold_limit = limit;
    a->leak = leak;
    a->excitability = excitability;
    a->refractory = refractory;
    a->fire_limit = fire_limit;
    a->snooze = snooze;
    a->accumulate = accumulate;
    a->area = area;
}

static inline void draw_synapses(struct drawn *d, int64_t s, enum drawn_form form) {
    int64_t n = d->arrays.neurons;
    uint32_t *src = drawn_take(d, (size_t)s * 4), *dst = drawn_take(d, (size_t)s * 4);
    uint8_t *weight = drawn_take(d, (size_t)s), *psp = drawn_take(d, (size_t)s), *type = drawn_take(d, (size_t)s);
    bool heavy = form == DRAWN_HEAVY || form == DRAWN_LATE_HEAVY;
    for (int64_t i = 0; i < s; i++) {
        src[i] = drawn_chance(d, 0.05) ? (uint32_t)rng_below(&d->rng, (uint64_t)(n < 8 ? n : 8))
                                       : (uint32_t)rng_below(&d->rng, (uint64_t)n);
        dst[i] = heavy && drawn_chance(d, 0.8) ? 0 : (uint32_t)rng_below(&d->rng, (uint64_t)n);
        weight[i] = (uint8_t)(heavy ? 255 : rng_below(&d->rng, 256));
        psp[i] = heavy ? 255 : form == DRAWN_WIDE ? (uint8_t)rng_below(&d->rng, 8) : (uint8_t)(1 + src[i] % 3);
        type[i] = drawn_chance(d, 0.35);
    }
    struct connectome_arrays *a = &d->arrays;
    a->synapses = s;
    a->src = src;
    a->dst = dst;
    a->weight = weight;
    a->psp = psp;
    a->type = type;
    if (form < DRAWN_LATE)
        return;
    uint8_t *delay = drawn_take(d, (size_t)s);
    for (int64_t i = 0; i < s; i++)
        delay[i] = (uint8_t)(1 + rng_below(&d->rng, DRAWN_DELAYS));
    a->delay = delay;
}

static inline void drop_traits(struct drawn *d, unsigned traits) {
    for (int64_t i = 0; i < d->arrays.neurons; i++) {
        if (!(traits & DRAWN_CHANCES))
            ((float *)(uintptr_t)d->arrays.excitability)[i] = 1;
        if (!(traits & DRAWN_LIMITS))
            ((uint16_t *)(uintptr_t)d->arrays.fire_limit)[i] = SPIKE_UNLIMITED;
    }
    for (int i = 0; !(traits & DRAWN_DIVISION) && i < d->arrays.n_areas; i++)
        d->areas[i].psp_divide = false;
}

static inline void draw_currents(struct drawn *d) {
    size_t n = (size_t)d->arrays.neurons;
    float *current = drawn_take(d, n * 4), *leak = drawn_take(d, n * 4), *gain = drawn_take(d, n * 4);
    for (size_t i = 0; i < n; i++) {
        current[i] = (float)(100 * rng_uniform(&d->rng) - 50);
        leak[i] = drawn_chance(d, 0.1) ? 1 : (float)rng_uniform(&d->rng);
        gain[i] = drawn_chance(d, 0.3) ? 0 : (float)(0.5 * rng_uniform(&d->rng) - 0.1);
    }
    d->areas[0].constant = -1.25f;
    d->areas[1].events = 1.28;
    d->areas[1].event = 60.1f;
    d->areas[3].events = 16;
    d->areas[3].event = 11;
    d->areas[3].constant = 3;
    d->arrays.current = current;
    d->arrays.current_leak = leak;
    d->arrays.current_gain = gain;
    d->arrays.seed = UINT64_C(0x123456789abcdef);
}

static inline void drawn_init(struct drawn *d, uint64_t seed, int64_t n, int64_t s, enum drawn_form form, unsigned traits) {
    *d = (struct drawn){.areas = {{.name = "plain", .power = 600.25f},
                                  {.name = "divides", .psp_divide = true},
                                  {.name = "driven", .mp_driven_psp = true, .power = -1.5f},
                                  {.name = "both", .psp_divide = true, .mp_driven_psp = true}}};
    rng_init(&d->rng, seed, 1, 0);
    draw_neurons(d, n);
    draw_synapses(d, s, form);
    d->arrays.areas = d->areas;
    d->arrays.n_areas = 4;
    drop_traits(d, traits);
    if (traits & DRAWN_CURRENTS)
        draw_currents(d);
}

/* Injections of a tick, the same for whoever asks: fractions, some cancelling to 0, some twice for a neuron. */
static inline int64_t drawn_injections(uint64_t seed, uint64_t tick, int64_t n, struct burst_injection *ret, int64_t room) {
    struct rng rng;
    int64_t count = 0;
    rng_init(&rng, seed, 2, (uint32_t)tick);
    for (int64_t want = 1 + n / 50; count < want && count + 1 < room; count++) {
        float potential = (float)(rng_uniform(&rng) * 900 - 150);
        ret[count] = (struct burst_injection){tick, (uint32_t)rng_below(&rng, (uint64_t)n), potential};
        if (rng_below(&rng, 10) == 0) {
            ret[count + 1] = (struct burst_injection){tick, ret[count].id, rng_below(&rng, 2) ? -potential : 0.3f};
            count++;
        }
    }
    return count;
}
