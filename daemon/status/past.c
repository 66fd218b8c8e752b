#include "daemon/status/past.h"

struct past {
    pthread_mutex_t lock;
    atomic_int references;
    int64_t newest; /* number of the newest point: time of day / PAST_STEP_MS; 0: there is none */
    float points[PAST_POINTS];
};

struct past *past_new(void) {
    struct past *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    atomic_init(&t->references, 1);
    for (int i = 0; i < PAST_POINTS; i++)
        t->points[i] = NAN;
    return t;
}

struct past *past_share(struct past *t) {
    atomic_fetch_add(&t->references, 1);
    return t;
}

void past_drop(struct past *t) {
    if (!t || atomic_fetch_sub(&t->references, 1) > 1)
        return;
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void past_put(struct past *t, int64_t wall_ms, float p) {
    int64_t number = wall_ms / PAST_STEP_MS;
    LOCKED(&t->lock);
    if (number < t->newest - PAST_BACK_MS / PAST_STEP_MS) { /* the clock was set back */
        t->newest = number;
        t->points[number % PAST_POINTS] = NAN;
    }
    number = number > t->newest ? number : t->newest;
    int64_t first = t->newest && number - t->newest < PAST_POINTS ? t->newest + 1 : number - PAST_POINTS + 1;
    for (int64_t i = first; i <= number; i++)
        t->points[i % PAST_POINTS] = NAN;
    t->newest = number;
    float *at = &t->points[number % PAST_POINTS];
    if (!isnan(p) && !(*at >= p))
        *at = p;
}

void past_copy(struct past *t, int64_t wall_ms, float ret[PAST_POINTS]) {
    int64_t first = wall_ms / PAST_STEP_MS - PAST_POINTS + 1;
    LOCKED(&t->lock);
    for (int i = 0; i < PAST_POINTS; i++) {
        int64_t number = first + i;
        bool kept = number <= t->newest && number > t->newest - PAST_POINTS;
        ret[i] = kept ? t->points[number % PAST_POINTS] : NAN;
    }
}
