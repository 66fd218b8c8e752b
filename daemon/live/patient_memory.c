#include "daemon/live/patient_memory.h"

#include "base/map.h"

enum { KEY_SIZE = 512 };

struct known {
    char *state;
    size_t len;
    int64_t put_ms;
};

struct patient_memory {
    struct map *known; /* by principal, name and model; the ones put first come first */
    int64_t keep_ms;
};

static void known_free(void *at) {
    struct known *k = at;
    if (!k)
        return;
    free(k->state);
    free(k);
}

struct patient_memory *patient_memory_new(int64_t keep_ms) {
    struct patient_memory *m = calloc(1, sizeof *m);
    if (!m || !(m->known = map_new(PATIENTS_MOST))) {
        free(m);
        return NULL;
    }
    m->keep_ms = keep_ms;
    return m;
}

void patient_memory_free(struct patient_memory *m) {
    if (!m)
        return;
    map_free(m->known, known_free);
    free(m);
}

static const char *memory_key(const struct patient *p, char key[KEY_SIZE]) {
    str_format(key, KEY_SIZE, "%s\x1f%s\x1f%s", p->principal, p->name, p->model);
    return key;
}

static bool is_of(const char *key, const struct patient *p) {
    const size_t n = strlen(p->principal);
    return !strncmp(key, p->principal, n) && key[n] == '\x1f';
}

/* Makes room for one more patient of this caller in its share. */
static void forget_own(struct patient_memory *m, const struct patient *p) {
    const char *key, *oldest = NULL;
    void *value;
    int n = 0;
    for (size_t cursor = 0; map_next(m->known, &cursor, &key, &value);)
        if (is_of(key, p)) {
            oldest = oldest ? oldest : key;
            n++;
        }
    if (n >= PATIENTS_OF_CALLER)
        known_free(map_remove(m->known, oldest));
}

/* Forgets what is too old, and the oldest entry while there is no room for one more. */
static void forget_patients(struct patient_memory *m, int64_t now_ms) {
    const char *key;
    size_t cursor = 0;
    void *value;
    while (map_next(m->known, &cursor, &key, &value)) {
        const bool old = now_ms - ((struct known *)value)->put_ms > m->keep_ms;
        if (!old && map_count(m->known) < PATIENTS_MOST)
            return;
        known_free(map_remove(m->known, key));
    }
}

void patient_memory_put(struct patient_memory *m, const struct patient *p, char *state, size_t len, int64_t now_ms) {
    char key[KEY_SIZE];
    struct known *k = calloc(1, sizeof *k);
    known_free(map_remove(m->known, memory_key(p, key)));
    forget_own(m, p);
    forget_patients(m, now_ms);
    if (k)
        *k = (struct known){state, len, now_ms};
    if (k && !map_put(m->known, key, k, NULL))
        return;
    free(state);
    free(k);
}

char *patient_memory_get(struct patient_memory *m, const struct patient *p, int64_t now_ms, size_t *ret_len, int64_t *ret_age_ms) {
    char key[KEY_SIZE];
    const struct known *k = map_get(m->known, memory_key(p, key));
    char *copy = k && now_ms - k->put_ms <= m->keep_ms ? malloc(k->len + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, k->state, k->len);
    *ret_len = k->len;
    *ret_age_ms = now_ms - k->put_ms;
    return copy;
}
