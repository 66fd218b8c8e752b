#include "tools/edfgen/render.h"

#include "base/needed.h"
#include "tools/edfgen/noise.h"

enum { REGIONS = 7, SLOW_SOURCES = 3, TABLE = 1024, MAX_ACTIVE = 64 };

/* Regional sources: centre and reach. */
static const float REGION[REGIONS][3] = {{-0.5f, 0.7f, 0.5f}, {0.5f, 0.7f, 0.5f},   {-0.9f, -0.1f, 0.5f}, {0.9f, -0.1f, 0.5f},
                                         {0, 0, 0.6f},        {-0.4f, -0.8f, 0.5f}, {0.4f, -0.8f, 0.5f}};

/* An event being played. */
struct playing {
    const struct event *event;
    float phase;     /* cycles */
    float jitter;    /* relative frequency error, slow */
    float swell;     /* relative amplitude error, slow */
    float previous;  /* last noise value, for its difference */
    uint32_t random; /* of the jitter */
    float scale;     /* amplitude over the waveform's own root mean square */
    float table[TABLE + 1];
};

struct renderer {
    const struct patient *patient;
    const struct recording_plan *plan;
    int64_t at;
    size_t next_event, next_vigil, next_burst;
    struct playing playing[MAX_ACTIVE];
    int n_playing;
    float depth, depth_goal, alpha, alpha_goal; /* vigilance, smoothed */
    float aftermath;                            /* share of the background lost after a seizure, fading */
    struct pink pink;
    struct rhythm rhythm_alpha[2], slow[SLOW_SOURCES], spindle;
    uint32_t muscle[ELECTRODES];
    float muscle_last[ELECTRODES], drift[ELECTRODES];
    float region[REGIONS][ELECTRODES], alpha_weight[2][ELECTRODES], slow_weight[SLOW_SOURCES][ELECTRODES],
        spindle_weight[ELECTRODES];
    float line[ELECTRODES];
    float line_phase;
    uint32_t amplifier; /* noise of suppressed EEG */
};

static void init_weights(struct renderer *r) {
    float w[ELECTRODES];
    uint32_t random = noise_seed(r->plan->noise, 5);
    for (int k = 0; k < REGIONS; k++) {
        scalp_weights(REGION[k][0], REGION[k][1], REGION[k][2], w);
        for (int c = 0; c < ELECTRODES; c++)
            r->region[k][c] = w[c];
    }
    for (int c = 0; c < ELECTRODES; c++) { /* regional sources together: 0.8 of the amplitude */
        float sum = 0;
        for (int k = 0; k < REGIONS; k++)
            sum += r->region[k][c] * r->region[k][c];
        for (int k = 0; k < REGIONS; k++)
            r->region[k][c] *= 0.8f / sqrtf(sum);
    }
    for (int side = 0; side < 2; side++) {
        scalp_weights(side ? 0.35f : -0.35f, -0.9f, 0.6f, w);
        for (int c = 0; c < ELECTRODES; c++)
            r->alpha_weight[side][c] = w[c] * 0.8f;
    }
    static const float slow_at[SLOW_SOURCES][3] = {{0, 0.5f, 1}, {-0.6f, 0, 0.8f}, {0.6f, 0, 0.8f}};
    for (int k = 0; k < SLOW_SOURCES; k++) {
        scalp_weights(slow_at[k][0], slow_at[k][1], slow_at[k][2], w);
        for (int c = 0; c < ELECTRODES; c++)
            r->slow_weight[k][c] = w[c] * (k ? 0.5f : 0.75f);
    }
    scalp_weights(0, 0.1f, 0.6f, r->spindle_weight);
    for (int c = 0; c < ELECTRODES; c++)
        r->line[c] = r->patient->line * (0.3f + 0.7f * fabsf(noise_unit(&random)));
}

struct renderer *render_new(const struct patient *patient, const struct recording_plan *plan) {
    struct renderer *r = needed(calloc(1, sizeof *r));
    r->patient = patient;
    r->plan = plan;
    pink_init(&r->pink, plan->noise, patient->slope);
    for (int k = 0; k < 2; k++)
        rhythm_init(&r->rhythm_alpha[k], plan->noise + 11 + (uint32_t)k, patient->alpha_hz, 0.9f);
    for (int k = 0; k < SLOW_SOURCES; k++)
        rhythm_init(&r->slow[k], plan->noise + 21 + (uint32_t)k, 0.8f + 0.35f * (float)k, 1.1f);
    rhythm_init(&r->spindle, plan->noise + 31, 13, 0.8f);
    for (int c = 0; c < ELECTRODES; c++)
        r->muscle[c] = noise_seed(plan->noise, 41 + (uint32_t)c);
    r->amplifier = noise_seed(plan->noise, 71);
    init_weights(r);
    return r;
}

void render_free(struct renderer *r) { free(r); }

/* ---- background ---- */

static void follow_plan(struct renderer *r) {
    while (r->next_vigil < r->plan->n_vigils && r->plan->vigils[r->next_vigil].first <= r->at) {
        const struct vigil *v = &r->plan->vigils[r->next_vigil++];
        r->depth_goal = v->depth;
        r->alpha_goal = v->eyes_closed ? 1 - v->depth : 0.15f;
    }
    if (r->at == 0) {
        r->depth = r->depth_goal;
        r->alpha = r->alpha_goal;
    }
    r->depth += (r->depth_goal - r->depth) / 20;
    r->alpha += (r->alpha_goal - r->alpha) / 2;
    r->aftermath *= 0.96f;
}

/* One sample of the sources, seen by all electrodes. */
struct sources {
    float lane[LANES], alpha[2], slow[SLOW_SOURCES], spindle, line;
};

NOISE_CLONES static void mix(struct renderer *restrict r, const struct sources *restrict s, const float *restrict muscle,
                             float *restrict ret) {
    const float rms_uv = r->patient->rms_uv, rms = rms_uv * (1 - r->aftermath);
    float v[ELECTRODES], white[ELECTRODES];
    for (int c = 0; c < ELECTRODES; c++)
        v[c] = 0.6f * s->lane[c];
    for (int k = 0; k < REGIONS; k++)
        for (int c = 0; c < ELECTRODES; c++)
            v[c] += r->region[k][c] * s->lane[ELECTRODES + k];
    for (int c = 0; c < ELECTRODES; c++)
        v[c] += r->alpha_weight[0][c] * s->alpha[0] + r->alpha_weight[1][c] * s->alpha[1];
    for (int k = 0; k < SLOW_SOURCES; k++)
        for (int c = 0; c < ELECTRODES; c++)
            v[c] += r->slow_weight[k][c] * s->slow[k];
    noise_units(r->muscle, ELECTRODES, white);
    for (int c = 0; c < ELECTRODES; c++) {
        v[c] += r->spindle_weight[c] * s->spindle + r->line[c] * s->line;
        v[c] += muscle[c] * (white[c] - r->muscle_last[c]);
        r->muscle_last[c] = white[c];
        r->drift[c] = r->drift[c] * 0.9995f + 0.05f * white[c];
        ret[c] = rms * v[c] + rms_uv * r->drift[c] * 0.5f;
    }
}

static void render_background(struct renderer *r, float uv[ELECTRODES][RATE_HZ]) {
    const struct patient *p = r->patient;
    float alpha = p->alpha * r->alpha * r->alpha, slow = p->delta * r->depth, spindles = r->depth > 0.3f ? 0.8f * r->depth : 0;
    float muscle[ELECTRODES], mixed[ELECTRODES];
    for (int c = 0; c < ELECTRODES; c++)
        muscle[c] = p->muscle * (1 - 0.7f * r->depth) * (0.3f + SCALP[c].x * SCALP[c].x);
    for (int i = 0; i < RATE_HZ; i++) {
        struct sources now;
        pink_next(&r->pink, now.lane);
        for (int k = 0; k < 2; k++)
            now.alpha[k] = rhythm_next(&r->rhythm_alpha[k]) * alpha;
        for (int k = 0; k < SLOW_SOURCES; k++)
            now.slow[k] = rhythm_next(&r->slow[k]) * slow;
        float burst = rhythm_next(&r->spindle);
        now.spindle = fabsf(burst) > 0.8f ? burst * spindles : 0.2f * burst * spindles;
        r->line_phase += p->mains_hz / RATE_HZ;
        r->line_phase -= floorf(r->line_phase);
        now.line = sinf(2 * (float)M_PI * r->line_phase);
        mix(r, &now, muscle, mixed);
        for (int c = 0; c < ELECTRODES; c++)
            uv[c][i] = mixed[c];
    }
}

/* ---- burst suppression ---- */

static float smooth(float x) {
    x = fminf(1, fmaxf(0, x));
    return x * x * (3 - 2 * x);
}

/* Share of the background at sample `at`: a burst rises within 0.1 s and falls within 0.2 s, both inside its span. */
static float burst_gain(struct renderer *r, int64_t at) {
    const float high = 1.5f, low = 0.01f;
    while (r->next_burst < r->plan->n_bursts && r->plan->bursts[r->next_burst].end <= at)
        r->next_burst++;
    if (r->next_burst == r->plan->n_bursts || r->plan->bursts[r->next_burst].first > at)
        return low;
    const struct burst *b = &r->plan->bursts[r->next_burst];
    float in = (float)(at - b->first) / (0.1f * RATE_HZ), out = (float)(b->end - at) / (0.2f * RATE_HZ);
    return low + (high - low) * smooth(fminf(in, out));
}

/* A suppressed EEG is the amplifier's noise, 0.7 µV root mean square. */
static void suppress(struct renderer *r, float uv[ELECTRODES][RATE_HZ]) {
    for (int i = 0; i < RATE_HZ; i++) {
        float gain = burst_gain(r, r->at + i);
        for (int c = 0; c < ELECTRODES; c++)
            uv[c][i] = gain * uv[c][i] + 1.2f * noise_unit(&r->amplifier);
    }
}

/* ---- events ---- */

static void build_table(struct playing *play) {
    const struct event *e = play->event;
    float square = 0;
    for (int i = 0; i < TABLE; i++) {
        float v = 0;
        for (int h = 0; h < HARMONICS; h++)
            v += e->harmonic[h] * sinf(2 * (float)M_PI * ((float)(h + 1) * (float)i / TABLE + e->shift[h]));
        play->table[i] = v;
        square += v * v;
    }
    play->table[TABLE] = play->table[0];
    play->scale = square > 0 ? e->amplitude_uv / sqrtf(square / TABLE) : 0;
}

static float lookup(const struct playing *play, float phase) {
    float at = (phase - floorf(phase)) * TABLE;
    int i = (int)at;
    float part = at - (float)i;
    return play->table[i] + part * (play->table[i + 1] - play->table[i]);
}

/* Amplitude over time: rises within 2 s, falls within 1.5 s. */
static float edge(int64_t t, int64_t length) {
    float in = (float)t / (2.0f * RATE_HZ), out = (float)(length - t) / (1.5f * RATE_HZ);
    return fminf(1, fmaxf(0, fminf(in, out)));
}

/* Sample t (from the event's start) of an oscillation: seizure, run or rocking. */
static void play_rhythm(struct playing *play, int64_t t, float *column) {
    const struct event *e = play->event;
    float progress = (float)t / (float)e->length, spread = smooth(progress * 1.6f);
    float hz = e->hz[0] * powf(e->hz[1] / e->hz[0], progress);
    play->jitter = play->jitter * 0.995f + 0.0045f * noise_unit(&play->random);
    play->swell = play->swell * 0.998f + 0.009f * noise_unit(&play->random);
    play->phase += hz * (1 + play->jitter) / RATE_HZ;
    float amplitude =
        play->scale * edge(t, e->length) * (e->growth + (1 - e->growth) * smooth(progress / e->build)) * (1 + play->swell);
    for (int c = 0; c < ELECTRODES; c++) {
        float weight = e->weight[0][c] + spread * (e->weight[1][c] - e->weight[0][c]);
        column[c * RATE_HZ] += weight * amplitude * lookup(play, play->phase - e->lag[c]);
    }
}

/* High-passed noise in bursts at hz, on a slow wave of the jaw. */
static void play_chewing(struct playing *play, int64_t t, float *column) {
    const struct event *e = play->event;
    play->jitter = play->jitter * 0.998f + 0.009f * noise_unit(&play->random);
    play->phase += e->hz[0] * (1 + play->jitter) / RATE_HZ;
    float beat = sinf(2 * (float)M_PI * play->phase), burst = beat > 0.2f ? beat : 0,
          amplitude = e->amplitude_uv * edge(t, e->length);
    for (int c = 0; c < ELECTRODES; c++) {
        float white = noise_unit(&play->random);
        column[c * RATE_HZ] += e->weight[0][c] * amplitude * (burst * 2.6f * (white - play->previous) + 0.9f * beat * beat * beat);
        play->previous = white;
    }
}

static void play_short(struct playing *play, int64_t t, float *column) {
    const struct event *e = play->event;
    float s = (float)t / RATE_HZ, x = (float)t / (float)e->length, v = 0;
    if (e->kind == EVENT_BLINK)
        v = sinf((float)M_PI * x) * sinf((float)M_PI * x) - 0.25f * (x > 0.7f ? sinf((float)M_PI * (x - 0.7f) / 0.3f) : 0);
    else if (e->kind == EVENT_POP)
        v = expf(-s / 0.35f) * fminf(1, (float)(t + 1) / 2);
    else if (e->kind == EVENT_SPIKE) /* 70 ms spike, then a slow wave */
        v = s < 0.07f ? sinf((float)M_PI * s / 0.07f) : -0.45f * sinf((float)M_PI * (s - 0.07f) / 0.33f);
    for (int c = 0; c < ELECTRODES; c++) {
        if (e->kind == EVENT_MUSCLE) {
            float white = noise_unit(&play->random);
            v = 1.8f * (white - play->previous) * smooth(4 * fminf(x, 1 - x));
            play->previous = white;
        }
        column[c * RATE_HZ] += e->weight[0][c] * e->amplitude_uv * v;
    }
}

static bool is_rhythm(const struct event *e) {
    return e->kind == EVENT_SEIZURE || e->kind == EVENT_RUN || e->kind == EVENT_ROCKING;
}

static void play_event(struct playing *play, int64_t at, float uv[ELECTRODES][RATE_HZ]) {
    const struct event *e = play->event;
    int64_t first = e->first > at ? e->first - at : 0, end = e->first + e->length - at;
    for (int64_t i = first; i < end && i < RATE_HZ; i++) {
        int64_t t = at + i - e->first;
        float *column = &uv[0][i];
        if (e->kind == EVENT_CHEWING)
            play_chewing(play, t, column);
        else if (is_rhythm(e))
            play_rhythm(play, t, column);
        else
            play_short(play, t, column);
    }
}

static void start_events(struct renderer *r) {
    const struct recording_plan *plan = r->plan;
    while (r->next_event < plan->n_events && plan->events[r->next_event].first < r->at + RATE_HZ && r->n_playing < MAX_ACTIVE) {
        struct playing *play = &r->playing[r->n_playing++];
        *play = (struct playing){.event = &plan->events[r->next_event++]};
        play->random = noise_seed(play->event->noise, 3);
        play->phase = 0.5f + 0.5f * noise_unit(&play->random);
        if (is_rhythm(play->event))
            build_table(play);
    }
}

/* Linked ears lie near the temporal electrodes and pick up much of them. */
static void refer(enum reference reference, float uv[ELECTRODES][RATE_HZ]) {
    float ears[ELECTRODES], zero = 0;
    if (reference == REFERENCE_REMOTE)
        return;
    for (int c = 0; c < ELECTRODES; c++) {
        ears[c] = expf(-3 * fmaxf(0, 1.1f - fabsf(SCALP[c].x)) - SCALP[c].y * SCALP[c].y);
        zero += ears[c];
    }
    for (int i = 0; i < RATE_HZ; i++) {
        float sum = 0;
        for (int c = 0; c < ELECTRODES; c++)
            sum += reference == REFERENCE_AVERAGE ? uv[c][i] / ELECTRODES : 0.6f * uv[c][i] * ears[c] / zero;
        for (int c = 0; c < ELECTRODES; c++)
            uv[c][i] -= sum;
    }
}

void render_second(struct renderer *r, float uv[ELECTRODES][RATE_HZ]) {
    follow_plan(r);
    render_background(r, uv);
    if (r->plan->bursts)
        suppress(r, uv);
    start_events(r);
    for (int i = 0; i < r->n_playing;) {
        const struct event *e = r->playing[i].event;
        play_event(&r->playing[i], r->at, uv);
        if (e->first + e->length > r->at + RATE_HZ) {
            i++;
            continue;
        }
        if (e->kind == EVENT_SEIZURE)
            r->aftermath = 0.35f;
        if (i < --r->n_playing)
            r->playing[i] = r->playing[r->n_playing];
    }
    refer(r->patient->reference, uv);
    r->at += RATE_HZ;
}
