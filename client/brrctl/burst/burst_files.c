/* burst generate, burst info: network files, without a daemon and without a device. */

#include "base/order.h"
#include "burst/column.h"
#include "burst/netfile.h"
#include "burst/wiring.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/burst/burst.h"
#include "client/brrctl/output.h"

/* ---- generate -------------------------------------------------------------------------------------------------- */

/* "1-255", or one number for both. */
static int read_bounds(const char *option, const char *text, int ret_low_high[2], struct err *err) {
    char low[32];
    const char *dash = strchr(text, '-');
    int64_t from = 0, to = 0;
    str_copy(low, sizeof low, text);
    if (dash && (size_t)(dash - text) < sizeof low)
        low[dash - text] = '\0';
    if (!str_to_i64(low, &from) || !str_to_i64(dash ? dash + 1 : text, &to) || from > 255 || to > 255)
        return err_set(err, ERR_INVALID, "%s is '%s'; expected LOW-HIGH within 0-255, such as 1-255", option, text);
    ret_low_high[0] = (int)from;
    ret_low_high[1] = (int)to;
    return 0;
}

static int wiring_of(const struct arguments *o, struct wiring *w, struct err *err) {
    const struct burst_options *own = burst_options_of(o);
    const struct {
        double given;
        float *to;
    } numbers[] = {
        {own->threshold, &w->threshold}, {own->leak, &w->leak}, {own->excitability, &w->excitability}, {own->power, &w->power}};
    wiring_default(w);
    int weights[2] = {w->weight_low, w->weight_high}, delays[2] = {w->delay_low, w->delay_high};
    int rc = wiring_kind_of(o->args[1], &w->kind, err);
    if (rc)
        return rc;
    if (!isnan(own->scale))
        return err_set(err, ERR_INVALID, "--scale %g: a %s network has none; use `burst generate column`", own->scale, o->args[1]);
    if (own->layers >= 0 && w->kind != WIRING_LAYERED)
        return err_set(err, ERR_INVALID, "--layers %" PRId64 ": a %s network has no layers; use `burst generate layered`",
                       own->layers, o->args[1]);
    if ((own->weights && (rc = read_bounds("--weights", own->weights, weights, err))) ||
        (own->delays && (rc = read_bounds("--delays", own->delays, delays, err))))
        return rc;
    w->weight_low = weights[0];
    w->weight_high = weights[1];
    w->delay_low = delays[0];
    w->delay_high = delays[1];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isnan(numbers[i].given))
            *numbers[i].to = (float)numbers[i].given;
    w->inhibitory = isnan(own->inhibitory) ? w->inhibitory : own->inhibitory;
    w->neurons = own->neurons >= 0 ? own->neurons : w->neurons;
    w->fan_out = own->synapses >= 0 ? own->synapses : w->fan_out < w->neurons ? w->fan_out : w->neurons;
    w->layers = own->layers >= 0 ? (int)own->layers : w->layers;
    w->seed = own->seed >= 0 ? (uint64_t)own->seed : w->seed;
    w->psp = own->psp >= 0 ? (int)own->psp : w->psp;
    w->refractory = own->refractory >= 0 ? (int)own->refractory : w->refractory;
    return 0;
}

static void report_generated(const struct arguments *o, const struct connectome *c, int64_t bytes, const char *sha256) {
    char size[32];
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "file", burst_options_of(o)->output);
        json_put_i64(w, "bytes", bytes);
        json_put_str(w, "sha256", sha256);
        json_put_i64(w, "neurons", c->net.n);
        json_put_i64(w, "synapses", c->synapses);
        output_end(w);
    } else {
        printf("%s: %u neurons, %" PRId64 " synapses, %s, SHA-256 %s\n", burst_options_of(o)->output, c->net.n, c->synapses,
               output_bytes((double)bytes, size, sizeof size), sha256);
    }
}

/* w NULL: a column. */
static int generate(const struct arguments *o, const struct wiring *w, struct connectome **c, struct err *err) {
    const struct burst_options *own = burst_options_of(o);
    const char *output = own->output;
    char sha256[DIGEST_HEX_SIZE];
    int64_t bytes = 0;
    int rc = w ? wiring_make(w, 0, c, err)
               : column_make(isnan(own->scale) ? 1 : own->scale, own->seed >= 0 ? (uint64_t)own->seed : 1, 0, c, err);
    if (rc || (rc = netfile_save(output, *c, NULL, sha256, err)) || (rc = fsio_size(output, &bytes, NULL, err)))
        return rc;
    report_generated(o, *c, bytes, sha256);
    return 0;
}

/* A column has figures of its own. */
static int check_column(const struct arguments *o, struct err *err) {
    const struct burst_options *own = burst_options_of(o);
    bool others = own->neurons >= 0 || own->synapses >= 0 || own->layers >= 0 || own->psp >= 0 || own->refractory >= 0 ||
                  own->weights || own->delays || !isnan(own->inhibitory) || !isnan(own->threshold) || !isnan(own->leak) ||
                  !isnan(own->excitability) || !isnan(own->power);
    return others ? err_set(err, ERR_INVALID, "a column takes --scale and --seed alone") : 0;
}

int burst_generate(const struct arguments *o) {
    bool column = !strcmp(o->args[1], "column");
    struct wiring w;
    struct connectome *c = NULL;
    struct err err = {0};
    if (!burst_options_of(o)->output) {
        fputs("brrctl: burst generate needs --out FILE.safetensors\n", stderr);
        return EXIT_USAGE;
    }
    if (column ? check_column(o, &err) : wiring_of(o, &w, &err)) {
        brrctl_fail(&err);
        return EXIT_USAGE;
    }
    int rc = generate(o, column ? NULL : &w, &c, &err);
    connectome_free(c);
    return rc ? brrctl_fail(&err) : 0;
}

/* ---- info ------------------------------------------------------------------------------------------------------ */

/* How many synapses neurons have. */
struct degrees {
    uint32_t low, median, high, none; /* none: neurons without any */
};

struct survey {
    struct degrees fan_out, fan_in;
    int64_t excitatory, inhibitory, mixed; /* mixed: neurons whose synapses have both signs */
    int64_t *members;                      /* (n_areas) neurons of each area */
};

/* Sorts counts. */
static struct degrees degrees_of(uint32_t *counts, uint32_t n) {
    struct degrees d = {0};
    SORT(counts, n, order_u32s);
    while (d.none < n && !counts[d.none])
        d.none++;
    d.low = counts[0];
    d.median = counts[n / 2];
    d.high = counts[n - 1];
    return d;
}

static void count_synapses(const struct connectome *c, uint32_t *reached, struct survey *s) {
    for (uint32_t i = 0; i < c->net.n; i++) {
        int64_t excitatory = 0, inhibitory = 0;
        for (uint32_t k = 0; k < c->net.live[i]; k++) {
            struct connectome_synapse y = connectome_at(c, i, k);
            reached[y.target]++;
            *(y.weight < 0 ? &inhibitory : &excitatory) += 1;
        }
        s->excitatory += excitatory;
        s->inhibitory += inhibitory;
        s->mixed += excitatory && inhibitory;
        s->members[c->area[i]]++;
    }
}

static int survey_make(const struct connectome *c, struct survey *s, struct err *err) {
    OWNED_MEMORY uint32_t *counts = calloc(c->net.n, sizeof *counts);
    *s = (struct survey){.members = calloc((size_t)c->n_areas, sizeof *s->members)};
    if (!counts || !s->members)
        return err_set(err, ERR_EXHAUSTED, "out of memory to survey %u neurons", c->net.n);
    count_synapses(c, counts, s);
    s->fan_in = degrees_of(counts, c->net.n);
    memcpy(counts, c->net.live, c->net.n * sizeof *counts);
    s->fan_out = degrees_of(counts, c->net.n);
    return 0;
}

/* A file, what is in it, and what was found. */
struct subject {
    const char *path;
    int64_t bytes;
    struct connectome *c;
    struct burst_state *state;
    struct survey *s;
};

static void put_degrees(struct json_writer *w, const char *key, const struct degrees *d, double mean) {
    json_begin_object(w, key);
    json_put_i64(w, "min", d->low);
    json_put_i64(w, "median", d->median);
    json_put_f64(w, "mean", mean);
    json_put_i64(w, "max", d->high);
    json_put_i64(w, "none", d->none);
    json_end(w, '}');
}

static void put_areas(struct json_writer *w, const struct connectome *c, const struct survey *s) {
    json_begin_array(w, "areas");
    for (int i = 0; i < c->n_areas; i++) {
        json_begin_object(w, NULL);
        json_put_str(w, "name", c->areas[i].name);
        json_put_i64(w, "neurons", s->members[i]);
        JSON_MEMBERS(w, c->areas[i], psp_divide, mp_driven_psp, power, constant);
        json_put_f64(w, "poisson", c->areas[i].events);
        json_put_f64(w, "poisson_potential", (double)c->areas[i].event);
        json_end(w, '}');
    }
    json_end(w, ']');
}

static void print_json(const struct subject *u) {
    const struct spike_net *net = &u->c->net;
    struct json_writer *w = output_begin();
    json_put_str(w, "file", u->path);
    json_put_i64(w, "bytes", u->bytes);
    json_put_i64(w, "resident_bytes", u->c->bytes);
    json_put_i64(w, "neurons", net->n);
    json_put_i64(w, "synapses", u->c->synapses);
    JSON_MEMBERS(w, *u->s, excitatory, inhibitory);
    json_put_i64(w, "mixed_sign_neurons", u->s->mixed);
    put_degrees(w, "fan_out", &u->s->fan_out, (double)u->c->synapses / net->n);
    put_degrees(w, "fan_in", &u->s->fan_in, (double)u->c->synapses / net->n);
    json_put_i64(w, "fraction_bits", net->fraction_bits);
    json_put_i64(w, "longest_delay", net->delays);
    json_put_bool(w, "exponential", net->current_gain != NULL);
    json_put_i64(w, "sum_bits", net->wide_sums ? 64 : 32);
    json_put_i64(w, "synapse_bytes", net->wide ? 8 : 4);
    put_areas(w, u->c, u->s);
    json_put_bool(w, "snapshot", u->state->neurons > 0);
    json_put_i64(w, "tick", (int64_t)u->state->tick);
    json_put_i64(w, "pending", u->state->n_pending);
    output_end(w);
}

static void print_degrees(const char *name, const struct degrees *d, double mean, const char *without) {
    printf("%-11s %u to %u, median %u, mean %.1f", name, d->low, d->high, d->median, mean);
    if (d->none)
        printf("; %u neurons %s", d->none, without);
    putchar('\n');
}

static void print_areas(const struct connectome *c, const struct survey *s) {
    enum { SHOWN = 20 };
    for (int i = 0; i < c->n_areas && i < SHOWN; i++) {
        const struct connectome_area *a = &c->areas[i];
        printf("%-11s %s: %" PRId64 " neurons%s%s", i ? "" : "areas", a->name, s->members[i], a->psp_divide ? ", psp_divide" : "",
               a->mp_driven_psp ? ", mp_driven_psp" : "");
        if (a->power != 0)
            printf(", power %g", (double)a->power);
        if (a->constant != 0)
            printf(", constant %g", (double)a->constant);
        if (a->events > 0)
            printf(", %g Poisson events of %g a tick", a->events, (double)a->event);
        putchar('\n');
    }
    if (c->n_areas > SHOWN)
        printf("%-11s and %d more; --json lists all\n", "", c->n_areas - SHOWN);
}

static void print_text(const struct subject *u) {
    const struct spike_net *net = &u->c->net;
    char size[32];
    double mean = (double)u->c->synapses / net->n;
    printf("%-11s %s, %s\n", "file", u->path, output_bytes((double)u->bytes, size, sizeof size));
    printf("%-11s %u\n", "neurons", net->n);
    printf("%-11s %" PRId64 ": %" PRId64 " excitatory, %" PRId64 " inhibitory; %" PRId64 " neurons have both signs\n", "synapses",
           u->c->synapses, u->s->excitatory, u->s->inhibitory, u->s->mixed);
    if (net->delays > 1)
        printf("%-11s up to %d ticks\n", "delays", net->delays);
    print_degrees("fan-out", &u->s->fan_out, mean, "reach nobody");
    print_degrees("fan-in", &u->s->fan_in, mean, "are reached by nobody");
    print_areas(u->c, u->s);
    printf("%-11s %s resident, %d bytes a synapse\n", "memory", output_bytes((double)u->c->bytes, size, sizeof size),
           net->wide ? 8 : 4);
    printf("%-11s %d-bit sums in units of 2^-%d\n", "numbers", net->wide_sums ? 64 : 32, net->fraction_bits);
    if (u->state->neurons)
        printf("%-11s after tick %" PRIu64 ", %" PRId64 " injections waiting\n", "snapshot", u->state->tick, u->state->n_pending);
}

static int inspect(struct subject *u, bool json, struct err *err) {
    int rc;
    if ((rc = netfile_load(u->path, 0, &u->c, u->state, err)) || (rc = fsio_size(u->path, &u->bytes, NULL, err)) ||
        (rc = survey_make(u->c, u->s, err)))
        return rc;
    (json ? print_json : print_text)(u);
    return 0;
}

int burst_info(const struct arguments *o) {
    struct burst_state state = {0};
    struct survey s = {0};
    struct err err = {0};
    struct subject u = {.path = o->args[1], .state = &state, .s = &s};
    int rc = inspect(&u, o->json, &err);
    free(s.members);
    burst_state_done(&state);
    connectome_free(u.c);
    return rc ? brrctl_fail(&err) : 0;
}
