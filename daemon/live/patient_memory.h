/* patient_memory: what the newest stream of each patient has learned of the patient, for the next stream that names the same one.
 * In memory alone: it ends with the daemon. A caller meets only what its own streams have learned with the same model. Bounded: the
 * oldest entries make room, first those of a caller who has PATIENTS_OF_CALLER. Loop thread. */
#pragma once
#include "base/base.h"

enum { PATIENT_NAME_SIZE = 128, PATIENTS_MOST = 4096, PATIENTS_OF_CALLER = 1024 };

struct patient {
    const char *principal, *name, *model;
};

struct patient_memory;
/* keep_ms: how long an entry stays after it was put. NULL when out of memory. */
struct patient_memory *patient_memory_new(int64_t keep_ms);
void patient_memory_free(struct patient_memory *m); /* NULL is fine */
/* Replaces what is known of the patient; takes state (malloc'd). Without memory it is forgotten. */
void patient_memory_put(struct patient_memory *m, const struct patient *p, char *state, size_t len, int64_t now_ms);
/* A malloc'd copy of what is known of the patient, and its age; NULL when nothing is known. */
char *patient_memory_get(struct patient_memory *m, const struct patient *p, int64_t now_ms, size_t *ret_len, int64_t *ret_age_ms);
