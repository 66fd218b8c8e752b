/* plan: what a synthetic patient is like and what happens in each recording: seizures, distractors, artefacts, vigilance.
 * Everything is drawn here, from one seed; the renderer only plays it. One thread per plan. */
#pragma once

#include "base/base.h"
#include "base/rng.h"
#include "tools/edfgen/scalp.h"

enum { HARMONICS = 4 };

/* STYLE_SIMPLE: seizures among rhythms of fixed frequency; learned within minutes. STYLE_RICH: nearer to a ward: seizures that
 * build up, and artefacts, rhythms and sleep whose band power is as high as theirs. STYLE_PEOPLE: as rich, with the
 * background of healthy adults. STYLE_WIDE: as rich, with patients and seizures
 * of all kinds: rhythms of 1 to 25 Hz, spikes and waves, low and fast onsets, which grow by a factor of up to 16 or not at all.
 * STYLE_ICU: patients and seizures as wide, among periodic discharges and rhythmic delta that last for minutes. */
enum style { STYLE_SIMPLE, STYLE_RICH, STYLE_PEOPLE, STYLE_WIDE, STYLE_ICU };
/* What is subtracted from all electrodes: nothing (a remote electrode), their mean, linked ears. */
enum reference { REFERENCE_REMOTE, REFERENCE_AVERAGE, REFERENCE_EARS };

/* Traits that stay over a patient's recordings. */
struct patient {
    uint64_t seed;
    uint32_t index;
    enum style style;
    enum reference reference;
    float mains_hz;
    float rms_uv;           /* background amplitude */
    float slope;            /* steepness of the 1/f spectrum */
    float alpha_hz, alpha;  /* posterior rhythm; amplitude relative to rms_uv */
    float delta;            /* slow waves of sleep, relative */
    float line;             /* mains, relative */
    float muscle;           /* tonic muscle noise, relative */
    float focus_x, focus_y; /* where spikes and the typical seizure begin */
    float elsewhere;        /* share of seizures that begin at another place */
    float seizure_hz[2];    /* typical first and last frequency */
    float distractors_per_hour;
    float spikes_per_hour;
};

enum event_kind {
    EVENT_SEIZURE,
    EVENT_RUN,     /* rhythmic theta or alpha at a fixed frequency */
    EVENT_CHEWING, /* rhythmic muscle bursts */
    EVENT_ROCKING, /* slow rhythmic movement */
    EVENT_BLINK,
    EVENT_MUSCLE,
    EVENT_POP,
    EVENT_SPIKE,
};

struct event {
    enum event_kind kind;
    int64_t first, length; /* samples */
    float amplitude_uv;    /* root mean square where weight is 1, at its plateau; peak for blinks, pops, spikes */
    float hz[2];           /* at the start and at the end */
    float harmonic[HARMONICS], shift[HARMONICS]; /* waveform: amplitudes and phases of its harmonics */
    float growth;                                /* amplitude at the start over that of the plateau */
    float build;                                 /* share of the length that passes until the plateau */
    float weight[2][ELECTRODES];                 /* spatial pattern at the start and at the end */
    float lag[ELECTRODES];                       /* fraction of a cycle */
    uint32_t noise;                              /* seed of its jitter */
};

/* A span of constant vigilance. */
struct vigil {
    int64_t first;
    float depth;      /* 0 awake … 1 deep sleep */
    bool eyes_closed; /* alpha */
};

/* Activity [first, end) between suppressions, in samples. */
struct burst {
    int64_t first, end;
};

struct recording_plan {
    int64_t samples;
    struct burst *bursts; /* burst suppression: ascending; everything else of the recording is suppressed. NULL: normal activity */
    size_t n_bursts;
    struct event *events; /* by first sample */
    size_t n_events, event_capacity;
    struct vigil *vigils;
    size_t n_vigils, vigil_capacity;
    uint32_t noise;
};

void plan_patient(struct patient *patient, uint64_t seed, uint32_t index, enum style style);
/* Plans of a patient's n recordings of samples[i] each, with `seizures` in all. RANGE when they do not fit: at least 120 s apart,
 * 30 s from both ends, 15 to 90 s long. */
int plan_recordings(const struct patient *patient, const int64_t *samples, int n, int seizures, struct recording_plan *plans,
                    struct err *err);
/* Plans of recordings in burst suppression throughout, of which the share `ratio` (BURSTS_LEAST_RATIO to BURSTS_MOST_RATIO) is
 * suppressed on average: bursts of 1.2 to 3 s, suppressions of 0.5 to 1.5 times their mean; a recording begins and ends suppressed.
 * No seizures, artefacts or rhythms. */
#define BURSTS_LEAST_RATIO 0.5
#define BURSTS_MOST_RATIO  0.95
void plan_burst_suppression(const struct patient *patient, const int64_t *samples, int n, double ratio,
                            struct recording_plan *plans);
void plan_done(struct recording_plan *plan);
