#include "burst/selftest_tick.h"

#include "burst/burst.h"
#include "burst/wiring.h"
#include "kernels/device.h"

OWNABLE(struct burst, burst_free)

enum { NEURONS = 1000, FAN_OUT = 100, TICKS = 40, KICKED = 40 };

/* A sequential simulation beside the device's. Its own copy of the network holds the membranes and countdowns. */
struct trial {
    struct connectome *c;
    int64_t sums[NEURONS];
    bool reached[NEURONS];
    uint32_t fired[NEURONS], n_fired, tick;
    struct selftest_tick *totals;
    char wrong[160]; /* "" = none so far */
};

static int draw(struct connectome **ret, struct err *err) {
    struct wiring w;
    wiring_default(&w);
    w.neurons = NEURONS;
    w.fan_out = FAN_OUT;
    w.seed = 5;
    w.inhibitory = 0.2;
    w.weight_low = 1;
    w.weight_high = 9;
    w.psp = 3;
    w.threshold = 40;
    w.leak = 0.25f;
    w.excitability = 0.6f;
    w.refractory = 2;
    return wiring_make(&w, 0, ret, err);
}

/* The injection into neuron i in a tick: the same potential for a few neurons, in the first ticks. */
static float kick(uint32_t i, uint32_t tick) { return tick <= 3 && i % (NEURONS / KICKED) == tick ? 50.5f : 0.0f; }

static void deliver(struct trial *t) {
    memset(t->sums, 0, sizeof t->sums);
    memset(t->reached, 0, sizeof t->reached);
    for (uint32_t k = 0; k < t->n_fired; k++)
        for (uint32_t i = 0; i < t->c->net.live[t->fired[k]]; i++) {
            struct connectome_synapse y = connectome_at(t->c, t->fired[k], i);
            t->sums[y.target] += y.weight * y.psp;
            t->reached[y.target] = true;
            t->totals->events++;
        }
}

/* The sequential tick: fills t->fired, ascending. */
static void advance(struct trial *t) {
    struct spike_net *net = &t->c->net;
    t->tick++;
    deliver(t);
    t->n_fired = 0;
    for (uint32_t i = 0; i < NEURONS; i++) {
        float injected = kick(i, t->tick), x = net->v[i] + ((float)t->sums[i] + injected);
        if (!t->reached[i] && injected == 0)
            continue;
        if (net->countdown[i]) {
            net->countdown[i]--;
            continue;
        }
        bool lucky = (float)spike_hash(i, t->tick) * 0x1p-32f < net->excitability[i];
        bool fires = x >= net->threshold[i] && lucky;
        net->v[i] = fires ? 0 : x * (1 - net->leak[i]);
        if (fires) {
            net->countdown[i] = net->refractory[i];
            t->fired[t->n_fired++] = i;
        }
    }
    t->totals->fired += t->n_fired;
}

/* burst_sink: one tick of the device. */
static void compare(void *ctx, const struct burst_frame *f) {
    struct trial *t = ctx;
    advance(t);
    int64_t i = 0;
    while (i < f->fired && i < t->n_fired && f->ids[i] == t->fired[i])
        i++;
    if ((i < f->fired || i < t->n_fired) && !*t->wrong)
        str_format(t->wrong, sizeof t->wrong, "tick %u fired %lld neurons, expected %u; they differ from number %lld on", t->tick,
                   (long long)f->fired, t->n_fired, (long long)i);
}

static int check_membranes(const struct trial *t, struct burst *b, struct err *err) {
    float v[NEURONS];
    int rc = burst_membranes(b, v, err);
    if (rc)
        return rc;
    for (int i = 0; i < NEURONS; i++)
        if (v[i] != t->c->net.v[i]) /* one that is no number differs too */
            return err_set(err, ERR_INTERNAL,
                           "the burst tick is wrong: the membrane of neuron %d is %.9g after %d ticks, expected %.9g", i,
                           (double)v[i], TICKS, (double)t->c->net.v[i]);
    return 0;
}

static int run(struct stream *s, struct trial *t, struct err *err) {
    struct connectome *c = NULL;
    OWNED_POINTER(burst_free) struct burst *b = NULL;
    int rc;
    if ((rc = draw(&c, err)) || (rc = burst_new(s, c, NULL, &b, err)))
        return rc;
    for (uint32_t tick = 1; tick <= 3; tick++)
        for (uint32_t i = 0; i < NEURONS; i++)
            if (kick(i, tick) != 0 && (rc = burst_inject(b, &(struct burst_injection){tick, i, kick(i, tick)}, 1, err)))
                return rc;
    if ((rc = burst_step(b, TICKS, compare, t, err)))
        return rc;
    return *t->wrong ? err_set(err, ERR_INTERNAL, "the burst tick is wrong: %s", t->wrong) : check_membranes(t, b, err);
}

int selftest_tick(const char *device, int threads, struct selftest_tick *ret, struct err *err) {
    struct trial *t = calloc(1, sizeof *t);
    struct device *dev = NULL;
    struct stream *s = NULL;
    double start_s = clock_s();
    *ret = (struct selftest_tick){.ticks = TICKS};
    if (!t)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a self-test");
    t->totals = ret;
    int rc;
    if (!(rc = draw(&t->c, err)) && !(rc = device_open(device, threads, &dev, err)) &&
        !(rc = stream_open(dev, STREAM_NORMAL, &s, err)))
        rc = run(s, t, err);
    ret->seconds = clock_s() - start_s;
    stream_close(s);
    device_close(dev);
    connectome_free(t->c);
    free(t);
    return rc;
}
